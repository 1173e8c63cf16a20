"""A private git server for one test: HTTP with a password, and ssh with a key, before one bare repository made of a bundle."""

import base64
import http.server
import os
import subprocess

ROOT = "/tmp/srv"
WANTED = "Basic " + base64.b64encode(b"kim:correct horse").decode()


class Handler(http.server.BaseHTTPRequestHandler):
    """What git's own CGI program says, to whom knows the password."""

    def do_GET(self):
        if self.headers.get("Authorization") != WANTED:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": ROOT,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = subprocess.run(["git", "http-backend"], input=body, env=environment, stdout=subprocess.PIPE).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        self.send_response(int(next((value.split()[0] for name, value in fields if name == "Status"), "200")))
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET


def main():
    os.makedirs(ROOT)
    subprocess.run(["git", "clone", "-q", "--bare", "/repository/digits.bundle", f"{ROOT}/digits.git"], check=True)
    for key in ("uploadpack.allowAnySHA1InWant", "uploadpack.allowReachableSHA1InWant"):
        subprocess.run(["git", "-C", f"{ROOT}/digits.git", "config", key, "true"], check=True)
    os.makedirs("/tmp/ssh", mode=0o700)
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    with open("/tmp/ssh/config", "w") as config:
        config.write(
            "Port 2222\nHostKey /tmp/ssh/host_key\nAuthorizedKeysFile /tmp/ssh/authorized_keys\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        )
    for name, mode in (("host_key", 0o600), ("authorized_keys", 0o600)):
        with open(f"/keys/{name}") as source, open(f"/tmp/ssh/{name}", "w") as copy:
            copy.write(source.read())
        os.chmod(f"/tmp/ssh/{name}", mode)
    subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", "/tmp/ssh/config"])
    server = http.server.ThreadingHTTPServer(("", 8080), Handler)
    print("serving", flush=True)
    server.serve_forever()


main()
