#!/usr/bin/env python3
"""Prints what the binary is made of, with licences, as CycloneDX: crates from `cargo metadata`, and the page's npm packages.

`sbom.py TARGET`, in the repository. Crates that only tests or build scripts use are left out.
"""

import json
import subprocess
import sys
from pathlib import Path


def crates(target: str) -> tuple[dict, list[dict]]:
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    [root] = [package for package in metadata["packages"] if package["name"] == "astrago"]
    seen, wanted = set(), [root["id"]]
    while wanted:
        one = wanted.pop()
        if one not in seen:
            seen.add(one)
            wanted += [
                other["pkg"]
                for other in nodes[one]["deps"]
                if any(kind["kind"] is None for kind in other["dep_kinds"])
            ]
    seen.remove(root["id"])
    return root, [packages[one] for one in seen]


def page() -> list[tuple[str, str, str | None]]:
    packages = json.loads(Path("ui/package-lock.json").read_text())["packages"]
    return [
        (path.rpartition("node_modules/")[2], package["version"], package.get("license"))
        for path, package in packages.items()
        if path and not package.get("dev") and not package.get("devOptional") and not package.get("link")
    ]


def component(ecosystem: str, name: str, version: str, licence: str | None) -> dict:
    purl = f"pkg:{ecosystem}/{name.replace('@', '%40')}@{version}"
    entry = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if licence:
        # Old manifests separate alternatives with a slash.
        entry["licenses"] = [{"expression": " OR ".join(each.strip() for each in licence.split("/"))}]
    return entry


def main() -> None:
    root, libraries = crates(sys.argv[1])
    components = [component("cargo", each["name"], each["version"], each["license"]) for each in libraries]
    components += [component("npm", *each) for each in page()]
    unique = {each["purl"]: each for each in components}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": component("cargo", root["name"], root["version"], root["license"]) | {"type": "application"}
        },
        "components": [unique[purl] for purl in sorted(unique)],
    }
    json.dump(bom, sys.stdout, indent=1)
    print()


main()
