#!/usr/bin/python3
"""A steady load of the smallest UDP packets (64 bytes with the FCS), and a place where it ends.

    udpload.py send ADDRESS PPS GROUP SECONDS    PPS packets a second, GROUP at a time; prints how many were sent
    udpload.py sink                              accepts what comes and keeps nothing

A group is one system call, which the kernel cuts into packets (UDP_SEGMENT), so that sending takes little processor time.
"""

import socket
import sys
import time

PORT = 9
PAYLOAD = 18
UDP_SEGMENT = 103  # not in the module `socket`


def send(address: str, pps: float, group: int, seconds: float) -> int:
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect((address, PORT))
    out.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, PAYLOAD)
    data = bytes(PAYLOAD * group)
    sent, gap = 0, group / pps
    begin = turn = time.monotonic()
    while (now := time.monotonic()) < begin + seconds:
        if now < turn:
            time.sleep(turn - now)
            continue
        try:
            sent += out.send(data) // PAYLOAD
        except OSError:
            pass  # an ICMP error that came in, or a full buffer: what counts is what arrives
        # What could not be sent in time (the process did not run) is not sent later in one go.
        turn = max(turn + gap, now - 0.01)
    return sent


def sink() -> None:
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # A full buffer drops at once, which costs the same for every packet.
    there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    there.bind(("0.0.0.0", PORT))
    while True:
        time.sleep(3600)


def main(args: list[str]) -> int:
    if args == ["sink"]:
        sink()
    elif len(args) == 5 and args[0] == "send":
        print(send(args[1], float(args[2]), int(args[3]), float(args[4])))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
