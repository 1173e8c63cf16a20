"""A registry on this machine with stand-ins for the images of Kubernetes' end-to-end tests.

    registry.py BUSYBOX AGNHOST FOLDER

BUSYBOX is a static busybox, AGNHOST the tests' own server; bash (as `sh`: busybox's keeps no variables with odd names) and
curl are this machine's. FOLDER gets `port` when it listens. A tag says nothing: each name is one image. Names that are not
in `IMAGES` are unknown, and tests that need them fail."""

import gzip
import hashlib
import http.server
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile

BUSYBOX, AGNHOST, FOLDER = map(pathlib.Path, sys.argv[1:])
USERS = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n"
GROUPS = "root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"


def layer(folders=(), files=(), links=()):
    """A layer, as it is sent and as it is unpacked."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:

        def add(name, kind, mode, data=b"", target=""):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(data), target
            tar.addfile(entry, io.BytesIO(data))

        for name, mode in folders:
            add(name, tarfile.DIRTYPE, mode)
        for name, mode, data in files:
            add(name, tarfile.REGTYPE, mode, data)
        for name, target in links:
            add(name, tarfile.SYMTYPE, 0o777, target=target)
    return gzip.compress(raw.getvalue(), mtime=0), raw.getvalue()


def program(name):
    """A program of this machine with its libraries, where they are looked for."""
    path = shutil.which(name)
    needed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout.split()
    libraries = [word.lstrip("/") for word in needed if word.startswith("/")]
    return [
        (f"bin/{name}", 0o755, pathlib.Path(path).read_bytes()),
        *((library, 0o755, pathlib.Path("/", library).read_bytes()) for library in libraries),
    ]


# Busybox has none of these options, and does what they ask for, except for UDP.
NETCAT = """#!/bin/sh
udp=
for word; do
  shift
  case $word in -v | -t) ;; -u) udp=1 ;; *) set -- "$@" "$word" ;; esac
done
[ "$udp" ] || exec busybox nc "$@"
shift # -w
exec 3<>"/dev/udp/$2/$3"
cat >&3
timeout "$1" cat <&3 || true
"""
applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
base = layer(
    [("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("root", 0o700), ("usr", 0o755), ("usr/bin", 0o755)]
    + [("var", 0o755), ("var/run", 0o755), ("www", 0o755)],
    [
        ("bin/busybox", 0o755, BUSYBOX.read_bytes()),
        *program("bash"),
        ("bin/nc", 0o755, NETCAT.encode()),
        ("etc/passwd", 0o644, USERS.encode()),
        ("etc/group", 0o644, GROUPS.encode()),
        ("www/index.html", 0o644, b"<h1>Welcome to nginx!</h1>\n"),
    ],
    [("bin/sh", "bash")] + [(f"bin/{name}", "busybox") for name in applets if name not in ("busybox", "sh", "bash", "nc")],
)
curl = layer(files=program("curl"))
agnhost = layer([("uploads", 0o777)], [("agnhost", 0o755, AGNHOST.read_bytes())], [("agnhost-2", "agnhost")])
IMAGES = {
    "agnhost": ([base, curl, agnhost], {"Entrypoint": ["/agnhost"], "Cmd": ["pause"]}),
    "busybox": ([base], {"Cmd": ["sh"]}),
    "nginx": ([base], {"Cmd": ["httpd", "-f", "-p", "80", "-h", "/www"]}),
    "nonroot": ([base], {"Cmd": ["sh"], "User": "1234"}),
    "pause": ([agnhost], {"Entrypoint": ["/agnhost", "pause"]}),
}
blobs, manifests = {}, {}


def keep(data):
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"digest": digest, "size": len(data)}


VENDOR = "application/vnd.oci.image"
for name, (layers, config) in IMAGES.items():
    config = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], **config}
    roots = ["sha256:" + hashlib.sha256(raw).hexdigest() for _, raw in layers]
    body = {"architecture": "amd64", "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": roots}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{VENDOR}.manifest.v1+json",
        "config": {"mediaType": f"{VENDOR}.config.v1+json", **keep(json.dumps(body).encode())},
        "layers": [{"mediaType": f"{VENDOR}.layer.v1.tar+gzip", **keep(sent)} for sent, _ in layers],
    }
    manifests[name] = json.dumps(manifest).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        parts = self.path.split("?")[0].strip("/").split("/")
        body, kind = None, "application/octet-stream"
        if parts == ["v2"]:
            body = b"{}"
        elif len(parts) > 3 and parts[-2] == "manifests":
            body, kind = manifests.get(parts[-3]), f"{VENDOR}.manifest.v1+json"
        elif len(parts) > 3 and parts[-2] == "blobs":
            body = blobs.get(parts[-1])
        self.send_response(404 if body is None else 200)
        body = body or b""
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if kind.startswith(VENDOR):
            self.send_header("Docker-Content-Digest", "sha256:" + hashlib.sha256(body).hexdigest())
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
(FOLDER / "port.new").write_text(str(server.server_port))
(FOLDER / "port.new").rename(FOLDER / "port")
server.serve_forever()
