// SPDX-License-Identifier: MIT
/* report/html_style.c - the style sheet of report.html.
 *
 * Text has a contrast ratio of at least 4.5 with its background in light and dark mode
 * (tests/cli/report-html.sh measures it) and is at least 12 px high. Below 700 px, each row of the
 * files table becomes a block. */
#include "report/html.h"

// clang-format off
const char html_style[] =
    ":root{--bg:#f6f8fa;--card:#fff;--t:#1f2328;--m:#57606a;--g:#d8dee4;--a:#0a58ca;"
    "--k1:#0f5c2e;--h1:#dcf3e4;--k2:#3d5200;--h2:#eef5d0;--k3:#754400;--h3:#fdebc8;"
    "--k4:#8f1d1d;--h4:#fbdcdc;--k0:#57606a;--h0:#eceff2}"
    "@media(prefers-color-scheme:dark){:root{--bg:#12151a;--card:#1b1f24;--t:#e6e8eb;--m:#a9b3be;"
    "--g:#3a424b;--a:#7fb3ff;--k1:#9be7b8;--h1:#12361f;--k2:#d3e38a;--h2:#2b3410;--k3:#ffce85;"
    "--h3:#40290a;--k4:#ffb1ab;--h4:#451714;--k0:#a9b3be;--h0:#2a3037}}"
    "*{box-sizing:border-box}"
    "body{font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;margin:0;"
    "background:var(--bg);color:var(--t);-webkit-text-size-adjust:100%}"
    "main{max-width:1080px;margin:0 auto;padding:20px 16px 48px}"
    "h1{font-size:26px;line-height:1.25;margin:8px 0 4px;overflow-wrap:anywhere}"
    "h2{font-size:19px;margin:0 0 8px}h3{font-size:15px;margin:18px 0 4px}"
    "p{margin:6px 0;overflow-wrap:anywhere}a{color:var(--a)}"
    ".m{color:var(--m);font-size:14px}"
    "section{background:var(--card);border:1px solid var(--g);border-radius:10px;"
    "padding:16px 18px;margin:16px 0}"
    ".answer{border-left:5px solid #1a7f43}.take{font-size:22px;line-height:1.4}.take .q{vertical-align:3px;margin-left:4px}"
    "code{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}"
    "svg{display:block;width:100%;max-width:920px;height:auto;margin:4px auto}.narrow{display:none}"
    ".q{display:inline-block;white-space:nowrap;padding:1px 9px;border-radius:11px;font-size:13px;font-weight:600;"
    "background:var(--h0);color:var(--k0)}"
    ".q1{background:var(--h1);color:var(--k1)}.q2{background:var(--h2);color:var(--k2)}"
    ".q3{background:var(--h3);color:var(--k3)}.q4{background:var(--h4);color:var(--k4)}"
    ".star{display:inline-block;padding:1px 9px;border-radius:11px;font-size:12px;font-weight:600;"
    "background:#146c38;color:#fff;margin-left:6px}"
    "table{border-collapse:collapse;width:100%;font-size:14px}"
    "th{font-size:12.5px;color:var(--m);font-weight:600;text-align:left;vertical-align:bottom}"
    "th,td{padding:7px 6px;border-bottom:1px solid var(--g)}td{vertical-align:top}"
    "tr:last-child td{border-bottom:0}"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".s{display:block;color:var(--m);font-size:12.5px}"
    ".name{white-space:nowrap}.name.long{white-space:normal;overflow-wrap:anywhere}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(180px,1fr));gap:8px 24px;margin:14px 0}"
    ".tiles strong{display:block;font-size:28px;line-height:1.2;font-variant-numeric:tabular-nums}"
    ".tiles span{color:var(--m);font-size:13.5px;line-height:1.4;display:block}"
    "summary{cursor:pointer;font-weight:600;padding:7px 0}details{border-top:1px solid var(--g)}"
    "section>details:first-child{border-top:0}.folds{padding-top:6px;padding-bottom:6px}"
    ".scroll{overflow-x:auto}.small th,.small td{padding:5px 8px 5px 0}.small .name{white-space:nowrap!important}.types{min-width:220px;font-size:12.5px}"
    ".fit td,.fit th{text-align:left;overflow-wrap:anywhere}.fit td:first-child{white-space:nowrap}"
    "dl{margin:8px 0}dt{margin-top:10px}dd{margin:2px 0 0}ul{padding-left:20px;margin:6px 0}"
    ".sum{overflow-wrap:anywhere;margin:8px 0}"
    "@media(min-width:700px) and (max-width:999px){table{font-size:13.5px}code{font-size:12px}}";
const char html_style_small[] =
    "@media(max-width:767px){.wide{display:none}.narrow{display:block;max-width:460px;margin:auto}}"
    "@media(max-width:699px){main{padding:12px 12px 40px}section{padding:14px 11px}"
    "h1{font-size:22px}.take{font-size:19px}"
    ".tiles{grid-template-columns:1fr;gap:6px}.tiles div{display:grid;grid-template-columns:104px 1fr;gap:12px;align-items:center}"
    ".tiles strong{font-size:22px}"
    ".files thead{display:none}.files,.files tbody,.files tr,.files td{display:block}"
    ".files tr{border-top:1px solid var(--g);padding:10px 0;"
    "display:grid;grid-template-columns:auto auto auto auto;justify-content:space-between;gap:4px 6px;align-items:end}"
    ".files tr:first-child{border-top:0}"
    ".files td{border:0;padding:0;text-align:left;overflow-wrap:anywhere}"
    ".files td:first-child{grid-column:1/5}.files .w .q{font-size:12px;padding:1px 7px}.files .n .s{display:none}"
    ".files td[data-l]::before{content:attr(data-l);color:var(--m);font-size:12px;display:block}"
    ".files .n{white-space:nowrap}"
    ".name{white-space:normal;overflow-wrap:anywhere}}"
    "@media print{body{background:#fff}section{break-inside:avoid;border-color:#bbb}}";
// clang-format on
