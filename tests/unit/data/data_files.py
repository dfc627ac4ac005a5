"""Small files in the published formats, made for the tests."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def images(rows: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, *shape), dtype=np.uint8)


def write_mnist(folder: Path, rows: int = 6, *, gz: bool = False) -> np.ndarray:
    folder.mkdir(parents=True)
    pixels = images(rows, 28, 28)
    for part in ("train", "t10k"):
        for kind, array in (("images-idx3", pixels), ("labels-idx1", np.arange(rows) % 10)):
            raw = idx_bytes(array)
            path = folder / f"{part}-{kind}-ubyte"
            (path.with_suffix(".gz") if gz else path).write_bytes(gzip.compress(raw, mtime=0) if gz else raw)
    return pixels


def cifar_record(labels: list[int], pixels: np.ndarray) -> bytes:
    return bytes(labels) + pixels.tobytes()


def write_cifar10_binary(folder: Path, rows: int = 3) -> np.ndarray:
    folder.mkdir(parents=True)
    pixels = images(rows * 6, 3, 32, 32)
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for i, name in enumerate(names):
        part = range(i * rows, (i + 1) * rows)
        (folder / f"{name}.bin").write_bytes(b"".join(cifar_record([row % 10], pixels[row]) for row in part))
    return pixels


def write_cifar10_python(folder: Path, rows: int = 3) -> np.ndarray:
    folder.mkdir(parents=True)
    pixels = images(rows * 6, 3, 32, 32)
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for i, name in enumerate(names):
        part = range(i * rows, (i + 1) * rows)
        content = {b"data": pixels[part].reshape(rows, -1), b"labels": [row % 10 for row in part]}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    return pixels


def write_tsv(path: Path, *rows: str, bom: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(row.replace("|", "\t") + "\n" for row in rows)
    path.write_bytes(text.encode("utf-8-sig" if bom else "utf-8"))
    return path
