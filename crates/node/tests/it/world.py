"""Tells callers their address (TCP port 80), and answers questions for one name (UDP port 53)."""

import socket
import struct
import sys
import threading


def greet():
    server = socket.create_server(("0.0.0.0", 80))
    while True:
        connection, address = server.accept()
        connection.sendall(f"you are {address[0]}\n".encode())
        connection.close()


def answer():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("203.0.113.53", 53))
    while True:
        question, caller = server.recvfrom(512)
        labels, position = [], 12
        while question[position]:
            length = question[position]
            labels.append(question[position + 1 : position + 1 + length].decode())
            position += length + 1
        end = position + 5
        kind = struct.unpack(">H", question[position + 1 : position + 3])[0]
        name = ".".join(labels)
        with open(sys.argv[1], "a") as asked:
            asked.write(f"{name}\n")
        known = name == "server.world.test"
        found = known and kind == 1
        head = question[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, int(found), 0, 0)
        record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton("203.0.113.9")
        server.sendto(head + question[12:end] + (record if found else b""), caller)


threading.Thread(target=greet, daemon=True).start()
answer()
