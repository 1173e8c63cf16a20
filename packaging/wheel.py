#!/usr/bin/env python3
"""Writes a wheel that carries the binary: `wheel.py BINARY VERSION README LICENSE FOLDER`.

Its tag says what the binary really needs: of the C library the newest version that it takes a symbol from, and nothing at
all when it is static.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path


def tag(binary: Path) -> str:
    def readelf(flag: str) -> str:
        command = ["readelf", "--wide", flag, str(binary)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    machine = {"X86-64": "x86_64", "AArch64": "aarch64"}[re.search(r"Machine:.*?([\w-]+)$", readelf("--file-header"), re.M)[1]]
    oldest = {"x86_64": 5, "aarch64": 17}[machine]
    if "INTERP" not in readelf("--program-headers"):
        return f"manylinux_2_{oldest}_{machine}.musllinux_1_1_{machine}"
    needed = re.findall(r"GLIBC_2\.(\d+)", readelf("--version-info"))
    return f"manylinux_2_{max(oldest, *map(int, needed))}_{machine}"


def main() -> None:
    binary, version, readme, licence, folder = Path(sys.argv[1]), sys.argv[2], *map(Path, sys.argv[3:6])
    platform = tag(binary)
    info = f"astrago-{version}.dist-info"
    metadata = f"""\
Metadata-Version: 2.4
Name: astrago
Version: {version}
Summary: Distributed training with only training code: one binary, your machine or a cluster.
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{readme.read_text()}"""
    tags = "".join(f"Tag: py3-none-{one}\n" for one in platform.split("."))
    files = {
        f"astrago-{version}.data/scripts/astrago": binary.read_bytes(),
        f"{info}/licenses/LICENSE": licence.read_bytes(),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: astrago\nRoot-Is-Purelib: false\n{tags}".encode(),
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items()
    )
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))[:6]
    wheel = folder / f"astrago-{version}-py3-none-{platform}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name.endswith("/scripts/astrago") else 0o100644) << 16
            archive.writestr(entry, data)
    print(wheel.name)


main()
