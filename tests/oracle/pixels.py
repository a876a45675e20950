#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes expected results for decoding and preparing images, and for their places in the prompt.

    pixels.py     writes tests/golden/pixels/

decode.json: small PNG and JPEG files of every kind (made here byte by byte, or by Pillow), and the SHA-256 of the pixels that
Pillow and transformers decode: ImageOps.exif_transpose(), then transformers' convert_to_rgb(), which puts transparent pixels on
white. Three kinds have different expected results, because Pillow does not follow the PNG specification there: 16-bit grey
(Pillow clips at 255 instead of dividing by 256), and transparent colours of 16 or fewer than 8 bits, which it compares with
8-bit values.

prepare.json: images of many shapes through transformers' image processors, in their default form (torchvision's functions on 8-bit tensors):
per view its size, the SHA-256 of the resized 8-bit pixels (recovered from the normalised ones) and some normalised values; and what the
processor writes in place of the placeholder: texts and numbers of image tokens. The image is computed from a formula, see pattern().
Made with Pillow 13.0.0, torchvision 0.29.2, torch 2.15.0, transformers 5.24.0."""
import hashlib
import io
import json
import os
import struct
import types
import warnings
import zlib

import numpy as np
import torch
import transformers as tf
from PIL import Image, ImageOps
from transformers.image_transforms import convert_to_rgb

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "golden", "pixels")
warnings.simplefilter("ignore")
torch.set_num_threads(1)


def sha(a):
    return hashlib.sha256(np.ascontiguousarray(a, dtype=np.uint8).tobytes()).hexdigest()


# ---- decoding ----

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(w, h, depth, kind, rows, extra=b"", after=b""):
    raw = b"".join(b"\0" + r for r in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, kind, 0, 0, 0)) + extra + chunk(b"IDAT", zlib.compress(raw))
            + after + chunk(b"IEND", b""))


def tiff(orientation, order="<"):
    return {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0)


def photo(w, h):
    y, x = np.mgrid[0:h, 0:w]
    return np.stack([(x * 11 + y * 3) % 256, (x * 5 + y * 17 + 40) % 256, (255 - x * 9 + y * 7) % 256], -1).astype(np.uint8)


def jpeg(image, **kw):
    f = io.BytesIO()
    image.save(f, "JPEG", **kw)
    return f.getvalue()


def saved_png(image, **kw):
    f = io.BytesIO()
    image.save(f, "PNG", **kw)
    return f.getvalue()


def read(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    return np.asarray(convert_to_rgb(image, return_numpy=True))


def decoding():
    rng = np.random.default_rng(5)
    u8 = lambda *s: rng.integers(0, 256, s, dtype=np.uint8)
    u16 = lambda *s: rng.integers(0, 65536, s).astype(">u2")
    pal = u8(16, 3).tobytes()
    row = lambda a: [r.tobytes() for r in a]
    grey16, keyed = u16(7, 5), u16(4, 3, 3)
    white = lambda v, key: np.where((v == key).all(-1, keepdims=True), 255, v >> 8)
    made = {
        "grey1.png": (png(5, 3, 1, 0, [b"\xa8", b"\x50", b"\xf8"]), None),
        "grey2.png": (png(5, 2, 2, 0, [b"\x1b\x40", b"\xe4\x80"]), None),
        "grey4.png": (png(3, 2, 4, 0, [b"\x12\x30", b"\xfe\xd0"]), None),
        "grey8.png": (png(5, 7, 8, 0, row(u8(7, 5))), None),
        "grey8-key.png": (png(4, 1, 8, 0, [b"\x05\x06\x07\x06"], chunk(b"tRNS", b"\0\x06")), None),
        "grey2-key.png": (png(4, 1, 2, 0, [b"\x1b"], chunk(b"tRNS", b"\0\x02")), np.array([[[0] * 3, [85] * 3, [255] * 3, [255] * 3]])),
        "grey16.png": (png(5, 7, 16, 0, row(grey16)), np.repeat((grey16 >> 8)[..., None], 3, -1)),
        "grey-alpha.png": (png(5, 7, 8, 4, row(u8(7, 5, 2))), None),
        "grey-alpha16.png": (png(5, 7, 16, 4, row(u16(7, 5, 2))), None),
        "rgb.png": (png(5, 7, 8, 2, row(u8(7, 5, 3))), None),
        "rgb-gamma.png": (png(5, 7, 8, 2, row(u8(7, 5, 3)), chunk(b"gAMA", struct.pack(">I", 100000))), None),
        "rgb-key.png": (png(3, 1, 8, 2, [bytes(range(9))], chunk(b"tRNS", struct.pack(">3H", 3, 4, 5))), None),
        "rgb16.png": (png(5, 7, 16, 2, row(u16(7, 5, 3))), None),
        "rgb16-key.png": (png(3, 4, 16, 2, row(keyed), chunk(b"tRNS", keyed[1, 1].tobytes())), white(keyed, keyed[1, 1])),
        "rgba.png": (png(16, 16, 8, 6, row(u8(16, 16, 4))), None),
        "rgba16.png": (png(5, 7, 16, 6, row(u16(7, 5, 4))), None),
        "palette2.png": (png(5, 2, 2, 3, [b"\x1b\x40", b"\xe4\x80"], chunk(b"PLTE", pal[:12])), None),
        "palette-short.png": (png(4, 1, 2, 3, [b"\x1b"], chunk(b"PLTE", pal[:9])), None),
        "palette8-alpha.png": (png(16, 1, 8, 3, [bytes(range(16))], chunk(b"PLTE", pal) + chunk(b"tRNS", u8(9).tobytes())), None),
        "interlaced.png": (interlaced(u8(9, 11, 3)), None),
        "exif6.png": (png(5, 7, 8, 2, row(u8(7, 5, 3)), chunk(b"eXIf", tiff(6))), None),
        "exif-last.png": (png(5, 7, 8, 2, row(u8(7, 5, 3)), b"", chunk(b"eXIf", tiff(5, ">"))), None),
        "xmp8.png": (png(5, 7, 8, 2, row(u8(7, 5, 3)), chunk(b"iTXt", b'XML:com.adobe.xmp\0\0\0\0\0<x tiff:Orientation="8"/>')), None),
    }
    p = Image.fromarray(photo(37, 21))
    for name, image, kw in [("420", p, {}), ("422", p, {"subsampling": 1}), ("444", p, {"subsampling": 0}), ("grey", p.convert("L"), {}),
                            ("progressive", p, {"progressive": True}), ("cmyk", Image.fromarray(u8(21, 37, 4), "CMYK"), {"quality": 95}),
                            ("rgb", p, {"keep_rgb": True}), ("restart", p, {"restart_marker_blocks": 2})]:
        made[name + ".jpg"] = (jpeg(image, **kw), None)
    for o in range(1, 9):
        made[f"exif{o}.jpg"] = (jpeg(p, exif=b"Exif\0\0" + tiff(o, "<>"[o % 2]), quality=30), None)
    made["xmp3.jpg"] = (jpeg(p, xmp=b"<x><tiff:Orientation>3</tiff:Orientation></x>", quality=30), None)
    made["exif-over-xmp.jpg"] = (jpeg(p, exif=b"Exif\0\0" + tiff(6), xmp=b'<x tiff:Orientation="3"/>', quality=30), None)
    out = []
    for name, (data, want) in made.items():
        open(os.path.join(OUT, name), "wb").write(data)
        a = read(data) if want is None else want
        out.append({"file": name, "w": a.shape[1], "h": a.shape[0], "sha256": sha(a)})
    return out


def interlaced(a):
    """Writes a PNG with Adam7, which Pillow cannot write."""
    h, w = a.shape[:2]
    raw = b""
    for x0, y0, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
        part = a[y0::dy, x0::dx]
        if part.size:
            raw += b"".join(b"\0" + r.tobytes() for r in part)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 1)) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


# ---- preparing ----

def pattern(w, h):
    """A test image; tests/unit/test_pixels.c computes the same one."""
    y, x = np.mgrid[0:h, 0:w].astype(np.int64)
    waves = np.stack([(x * 7 + y * 3) >> 1, (x * 2 + y * 11 + 90) >> 1, 255 - (x * 5 - y * 4)], -1)
    return ((waves ^ ((x * y) // 37 % 2 * 96)[..., None]) & 255).astype(np.uint8)


CLIP = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
HALF = ([0.5] * 3, [0.5] * 3)
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
ZERO = ([0.0] * 3, [1.0] * 3)


def merged(out, patch, merge):
    """Planes of the patches of Qwen's processors."""
    _, gh, gw = out["image_grid_thw"][0].tolist()
    v = out["pixel_values"].reshape(gh // merge, gw // merge, merge, merge, 3, 2, patch, patch)
    assert (v[:, :, :, :, :, 0] == v[:, :, :, :, :, 1]).all()
    return [v[:, :, :, :, :, 0].permute(4, 0, 2, 5, 1, 3, 6).reshape(3, gh * patch, gw * patch)]


def rows_of_patches(v, gh, gw, patch):
    """Planes of patches [n][patch * patch * 3], row by row."""
    return v[:gh * gw].reshape(gh, gw, patch, patch, 3).permute(4, 0, 2, 1, 3).reshape(3, gh * patch, gw * patch)


def qwen(proc, image, c):
    out = proc(image, return_tensors="pt")
    text = tf.Qwen2VLProcessor.replace_image_token(types.SimpleNamespace(image_processor=proc, image_token="@"), out, 0)
    return merged(out, c["patch"], c["merge"]), text


def glm(proc, image, c):
    out = proc(image, return_tensors="pt")
    text = tf.Glm4vProcessor.replace_image_token(types.SimpleNamespace(image_processor=proc, image_token="@"), out, 0)
    return merged(out, c["patch"], c["merge"]), text


def gemma3(proc, image, c):
    from transformers.models.gemma3.processing_gemma3 import Gemma3Processor
    out = proc(image, return_tensors="pt")
    n = (c["image_size"] // c["patch"] // c["merge"]) ** 2
    full = f"\n\n<start_of_image>{'@' * n}<end_of_image>\n\n"
    return list(out["pixel_values"]), Gemma3Processor.replace_image_token(types.SimpleNamespace(full_image_sequence=full), out, 0)


def gemma4(proc, image, c):
    from transformers.models.gemma4.processing_gemma4 import Gemma4Processor
    out = proc(image, return_tensors="pt")
    gw, gh = (out["image_position_ids"][0].max(0).values + 1).tolist()
    text = Gemma4Processor.replace_image_token(types.SimpleNamespace(boi_token="<|image>", eoi_token="<image|>", image_token="@"), out, 0)
    return [rows_of_patches(out["pixel_values"][0], gh, gw, c["patch"])], text


def pixtral(proc, image, c):
    out = proc(image, patch_size=c["patch"] * c["merge"], return_tensors="pt")
    me = types.SimpleNamespace(patch_size=c["patch"], spatial_merge_size=c["merge"], image_token="@", image_break_token="[IMG_BREAK]",
                               image_end_token="[IMG_END]")
    return list(out["pixel_values"]), tf.PixtralProcessor.replace_image_token(me, out, 0)


def idefics3(proc, image, c):
    out = proc(image, return_row_col_info=True, return_tensors="pt")
    n = (c["image_size"] // c["patch"] // c["merge"]) ** 2
    me = types.SimpleNamespace(fake_image_token="<fake_token_around_image>", image_token="@", global_image_tag="<global-img>", image_seq_len=n)
    return list(out["pixel_values"][0]), tf.Idefics3Processor.replace_image_token(me, out, 0)


def internvl(proc, image, c):
    from transformers.models.internvl.processing_internvl import InternVLProcessor
    out = proc(image, crop_to_patches=True, min_patches=c["tiles"][0], max_patches=c["tiles"][1], return_tensors="pt")
    n = (c["image_size"] // c["patch"] // c["merge"]) ** 2
    me = types.SimpleNamespace(start_image_token="<img>", end_image_token="</img>", image_token="@", image_seq_length=n)
    return list(out["pixel_values"]), InternVLProcessor.replace_image_token(me, out, 0)


def lfm2(proc, image, c):
    from transformers.models.lfm2_vl.processing_lfm2_vl import Lfm2VlProcessor as P
    out = proc(image, return_row_col_info=True, return_tensors="pt")
    views = [rows_of_patches(v, gh, gw, c["patch"]) for v, (gh, gw) in zip(out["pixel_values"], out["spatial_shapes"].tolist())]
    me = types.SimpleNamespace(image_processor=proc, image_token="@", image_start_token="<|image_start|>", image_end_token="<|image_end|>",
                               image_thumbnail_token="<|img_thumbnail|>")
    for f in ("_get_image_num_tokens", "_build_image_tokens", "_compute_tokens_per_tile", "_compute_tokens_for_image"):
        setattr(me, f, types.MethodType(getattr(P, f), me))
    return views, P.replace_image_token(me, out, 0, use_image_special_tokens=True)


def kimi(proc, image, c):
    out = proc(image, return_tensors="pt")
    _, gh, gw = out["image_grid_thw"][0].tolist()
    p = c["patch"]
    view = out["pixel_values"].reshape(gh, gw, 3, p, p).permute(2, 0, 3, 1, 4).reshape(3, gh * p, gw * p)
    return [view], "@" * (gh * gw // c["merge"] ** 2)


def minicpm(proc, image, c):
    from transformers.models.minicpmv4_6.processing_minicpmv4_6 import MiniCPMV4_6Processor as P
    out = proc(image, return_tensors="pt")
    p, at, views = c["patch"], 0, []
    for gh, gw in out["target_sizes"].tolist():
        v = out["pixel_values"][0][:, :, at:at + gh * gw * p]
        views.append(v.reshape(3, p, gh, gw, p).permute(0, 2, 1, 3, 4).reshape(3, gh * p, gw * p))
        at += gh * gw * p
    me = types.SimpleNamespace(image_token="@", image_start_token="<image>", image_end_token="</image>", slice_start_token="<slice>",
                               slice_end_token="</slice>", image_id_start_token="<image_id>", image_id_end_token="</image_id>", slice_mode=True)
    text = P.replace_image_token(me, out, 0, image_token_divisor=16)
    return views, P._prepend_local_ids(me, ["@"], [text], "@")[0]


def parts(text):
    """Alternates texts and numbers of image tokens."""
    out = []
    for i, s in enumerate(text.replace("@", "\0@\0").split("\0")):
        if s == "@":
            if out and isinstance(out[-1], int):
                out[-1] += 1
            else:
                out.append(1)
        elif s:
            out.append(s)
    return out


def view(v, mean, std):
    v = v.to(torch.float64)
    m, s = (torch.tensor(x, dtype=torch.float64)[:, None, None] for x in (mean, std))
    bytes_ = (v * s + m) * 255
    assert (bytes_ - bytes_.round()).abs().max() < 1e-3
    n = v.numel()
    flat = v.reshape(-1)
    at = [0, 1, n // 3, n // 2, n - 1]
    return {"w": v.shape[2], "h": v.shape[1], "sha256": sha(bytes_.round().permute(1, 2, 0).numpy()), "at": at, "values": [float(flat[i]) for i in at]}


def smart(lo, hi):
    return {"shortest_edge": lo, "longest_edge": hi}


SIZES = [(7, 5), (33, 47), (300, 200), (13, 400), (640, 480), (1001, 777)]


def preparing():
    from transformers.models.kimi_k25.image_processing_kimi_k25 import Kimi_K25ImageProcessor
    from transformers.models.minicpmv4_6.image_processing_minicpmv4_6 import MiniCPMV4_6ImageProcessor
    from transformers.models.lfm2_vl.image_processing_lfm2_vl import Lfm2VlImageProcessor
    from transformers.models.gemma3.image_processing_gemma3 import Gemma3ImageProcessor
    from transformers.models.gemma4.image_processing_gemma4 import Gemma4ImageProcessor
    from transformers.models.got_ocr2.image_processing_got_ocr2 import GotOcr2ImageProcessor
    from transformers.models.glm4v.image_processing_glm4v import Glm4vImageProcessor
    from transformers.models.pixtral.image_processing_pixtral import PixtralImageProcessor
    from transformers.models.idefics3.image_processing_idefics3 import Idefics3ImageProcessor
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor as Q
    colour = lambda c: {"image_mean": c[0], "image_std": c[1]}
    # projector, processor, function, keys of the projector file, colours, sizes
    cases = [
        ("qwen2vl_merger", Q(size=smart(3136, 12845056), **colour(CLIP)), qwen, {"patch": 14, "merge": 2, "image_size": 560}, CLIP, SIZES + [(2000, 12)]),
        ("qwen2vl_merger", Q(size=smart(3136, 200704), **colour(CLIP)), qwen, {"patch": 14, "merge": 2, "image_size": 560, "max_pixels": 200704}, CLIP,
         [(640, 480), (1400, 90)]),
        ("qwen2.5vl_merger", Q(size=smart(3136, 12845056), **colour(CLIP)), qwen, {"patch": 14, "merge": 2, "image_size": 560}, CLIP, [(300, 200), (28, 29)]),
        ("qwen3vl_merger", Q(size=smart(65536, 16777216), patch_size=16, **colour(HALF)), qwen, {"patch": 16, "merge": 2, "image_size": 768}, HALF, SIZES),
        ("gemma3", Gemma3ImageProcessor(size={"height": 896, "width": 896}), gemma3, {"patch": 14, "merge": 4, "image_size": 896}, HALF, [(33, 47), (1001, 777)]),
        ("gemma4v", Gemma4ImageProcessor(), gemma4, {"patch": 16, "merge": 3, "image_size": 224}, ZERO, SIZES + [(9, 3000), (3000, 9)]),
        ("pixtral", PixtralImageProcessor(**colour(CLIP)), pixtral, {"patch": 16, "merge": 1, "image_size": 1024}, CLIP, [(7, 5), (33, 47), (1500, 900)]),
        ("pixtral", PixtralImageProcessor(size={"longest_edge": 1540}, **colour(CLIP)), pixtral, {"patch": 14, "merge": 2, "image_size": 1540}, CLIP,
         [(33, 47), (300, 200)]),
        ("idefics3", Idefics3ImageProcessor(size={"longest_edge": 1456}), idefics3, {"patch": 14, "merge": 2, "image_size": 364, "longest": 1456}, HALF,
         [(33, 47), (300, 200)]),
        ("idefics3", Idefics3ImageProcessor(size={"longest_edge": 1536}, max_image_size={"longest_edge": 512}), idefics3,
         {"patch": 16, "merge": 4, "image_size": 512, "longest": 1536}, HALF, [(640, 480), (60, 400)]),
        ("idefics3", Idefics3ImageProcessor(size={"longest_edge": 512}, max_image_size={"longest_edge": 512}), idefics3,
         {"patch": 16, "merge": 4, "image_size": 512, "longest": 512}, HALF, [(300, 200)]),
        ("internvl", GotOcr2ImageProcessor(size={"height": 448, "width": 448}, **colour(IMAGENET)), internvl,
         {"patch": 14, "merge": 2, "image_size": 448, "tiles": [1, 12]}, IMAGENET, [(33, 47), (300, 300), (700, 480), (1001, 300)]),
        ("lfm2", Lfm2VlImageProcessor(), lfm2, {"patch": 16, "merge": 2, "image_size": 256, "tiles": [2, 10]}, HALF, [(7, 5), (300, 200), (1001, 777), (2000, 400)]),
        ("glm4v", Glm4vImageProcessor(size=smart(12544, 9633792)), glm, {"patch": 14, "merge": 2, "image_size": 336}, CLIP, [(7, 5), (33, 47), (640, 480)]),
        ("kimivl", Kimi_K25ImageProcessor(max_patches=4096), kimi, {"patch": 14, "merge": 2, "image_size": 896}, HALF, [(7, 5), (33, 47), (1001, 977)]),
        ("minicpmv4_6", MiniCPMV4_6ImageProcessor(), minicpm, {"patch": 14, "merge": 4, "image_size": 448, "tiles": [1, 9]}, HALF, SIZES + [(1900, 300)]),
    ]
    out = []
    for projector, proc, f, keys, (mean, std), sizes in cases:
        for w, h in sizes:
            views, text = f(proc, torch.from_numpy(pattern(w, h)).permute(2, 0, 1).contiguous(), keys)
            out.append({"projector": projector, **keys, "mean": mean, "std": std, "w": w, "h": h, "views": [view(v, mean, std) for v in views],
                        "prompt": parts(text)})
    return out


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    for name, data in (("decode", decoding()), ("prepare", preparing())):
        with open(os.path.join(OUT, name + ".json"), "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(x) for x in data) + "\n]\n")
