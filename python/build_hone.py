# SPDX-License-Identifier: MIT
"""Builds the wheel and the source package of hone-gguf (PEP 517), using only the standard library.

A wheel contains the Python files, the library and the program, both built by `make`, and metadata. One wheel per platform serves
every Python 3. `make wheel` calls auditwheel to add the libraries that libhone.so needs.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Optional

ROOT = Path(__file__).resolve().parent.parent
VERSION = (ROOT / "VERSION").read_text().strip()
NAME = "hone_gguf"
EPOCH = (2020, 1, 1, 0, 0, 0)  # reproducible: the same files give the same wheel

METADATA = f"""Metadata-Version: 2.1
Name: hone-gguf
Version: {VERSION}
Summary: Language models in GGUF files: read, write, tokenize, generate, measure, quantize
License: MIT
Requires-Python: >=3.9
Requires-Dist: numpy
Classifier: License :: OSI Approved :: MIT License
Classifier: Operating System :: POSIX :: Linux
Classifier: Operating System :: MacOS
Classifier: Operating System :: Microsoft :: Windows
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

"""


def metadata() -> str:
    return METADATA + (ROOT / "docs" / "python.md").read_text()


def make(*goals: str) -> None:
    """Runs make in the source tree with MAKEFLAGS and CC from the environment."""
    jobs = [] if "MAKEFLAGS" in os.environ else [f"-j{os.cpu_count() or 1}"]
    subprocess.run(["make", "-s", *jobs, *goals], cwd=ROOT, check=True)


def native_files() -> dict[str, bytes]:
    """The library and the program as `make install` installs them, by their names in the package.
    HONE_GLIBC228: the builds for older systems, as in published wheels. HONE_BUILT: names of a cross-compiled library,
    of the program, and of the file with their libraries' licenses. BUILD is the Makefile's variable; _PYTHON_HOST_PLATFORM (sysconfig's) selects another platform."""
    if os.environ.get("HONE_BUILT"):
        library, program, licenses = map(Path, os.environ["HONE_BUILT"].split(os.pathsep))
        return {f"{NAME}/lib/{library.name}": library.read_bytes(), f"{NAME}/bin/{program.name}": program.read_bytes(),
                f"{NAME}-{VERSION}.dist-info/licenses/LIBRARIES.txt": licenses.read_bytes()}
    if os.environ.get("HONE_GLIBC228"):
        make("glibc228", "HAVE_CUDA=0")
        old = ROOT / os.environ.get("BUILD", "build") / "glibc228"
        return {f"{NAME}/lib/libhone.so.2": (old / "libhone.so.2").read_bytes(),
                f"{NAME}/bin/hone": (old / "hone").read_bytes()}
    stage = ROOT / "build" / "python-stage"
    shutil.rmtree(stage, ignore_errors=True)
    make("install", f"DESTDIR={stage}", "PREFIX=/p", "LIBDIR=lib", "HAVE_CUDA=0")
    return {f"{NAME}/lib/libhone.so.2": (stage / "p/lib/libhone.so.2").read_bytes(),
            f"{NAME}/bin/hone": (stage / "p/bin/hone").read_bytes()}


def digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_wheel(wheel_directory: str, config_settings: Optional[dict[str, Any]] = None,
                metadata_directory: Optional[str] = None) -> str:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    info = f"{NAME}-{VERSION}.dist-info"
    package = ROOT / "python" / NAME
    files = {f"{NAME}/{p.name}": p.read_bytes() for p in sorted(package.iterdir())
             if p.suffix == ".py" or p.name == "py.typed"}
    make("python-steps", f"PYTHON={sys.executable}")
    files[f"{NAME}/steps.py"] = (ROOT / os.environ.get("BUILD", "build") / "gen" / "steps.py").read_bytes()
    files.update(native_files())
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: hone\nRoot-Is-Purelib: false\n"
                              f"Tag: py3-none-{platform}\n").encode()
    files[f"{info}/entry_points.txt"] = f"[console_scripts]\nhone = {NAME}.__main__:main\n".encode()
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    record = "".join(f"{n},{digest(d)},{len(d)}\n" for n, d in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"{NAME}-{VERSION}-py3-none-{platform}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/bin/" in path else 0o100644) << 16  # pip requires the file type
            z.writestr(entry, data)
    return name


def build_sdist(sdist_directory: str, config_settings: Optional[dict[str, Any]] = None) -> str:
    """The committed files, except tests and measurements, which are large, plus PKG-INFO."""
    name = f"{NAME}-{VERSION}"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    paths = [p for p in listed.stdout.decode().split("\0") if p and not p.startswith(
        ("tests/", "bench/", "docs/results/", "docs/notebook/", ".ci/")) and not p.endswith(".png")]
    out = Path(sdist_directory) / f"{name}.tar.gz"
    with tarfile.open(out, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for p in paths:
            tar.add(ROOT / p, f"{name}/{p}")
        data = metadata().encode()
        entry = tarfile.TarInfo(f"{name}/PKG-INFO")
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return out.name
