"""Writers that are killed while they write, again and again: python storm.py STORE KILLS.

Each round two processes give verdicts as fast as they can and are killed with SIGKILL. What they were told
that is written is printed as JSON, for a test to look for in the store.
"""

import json
import os
import random
import select
import signal
import sys
import time

from icelens.review.store import Store


def write(path, who, pipe):
    """Give verdicts for ever; a line for each says what was acknowledged."""
    store, turn = Store(path), 0
    while True:
        turn += 1
        index, key = random.randrange(len(store)), f"{who} {turn}"
        if turn % 7 == 0:
            store.set_order(random.sample(range(len(store)), len(store)), [0.5] * len(store))
            continue
        if turn % 5 == 0:
            taken = store.undo(who=who, key=key)
            line = {"key": key, "number": taken.number, "undo": True}
        else:
            given = store.judge(index, random.choice(("keep", "drop", "unsure")), who=who, key=key)
            line = {"key": key, "number": given.number, "index": index, "verdict": given.verdict}
        os.write(pipe, (json.dumps(line) + "\n").encode())


def started(path, who):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        write(path, who, writing)
    os.close(writing)
    return child, reading


def killed(child, reading):
    """Kill a writer and return the lines that it had written by then."""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    content = b""
    while part := os.read(reading, 65536):
        content += part
    os.close(reading)
    return [json.loads(line) for line in content.decode().splitlines()]


def storm(path, kills):
    acknowledged = []
    for turn in range(kills // 2):
        writers = [started(path, f"writer {turn} {number}") for number in range(2)]
        for _, reading in writers:
            select.select([reading], [], [], 30)  # until the first word of each
        time.sleep(random.random() * 0.05)
        for writer in writers:
            acknowledged += killed(*writer)
    return acknowledged


if __name__ == "__main__":
    random.seed(0)
    print(json.dumps(storm(sys.argv[1], int(sys.argv[2]))))
