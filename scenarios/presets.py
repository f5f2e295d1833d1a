#!/usr/bin/env python3
"""Runs the scenarios of the presets, each with its preset and with "balanced", and prints a table of medians.

usage: scenarios/presets.py PSMC_LAB sim|run [RUNS]

"sim" leaves out what a simulation does not have, quotas.
"""

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

STREAMS = {"live": "video", "gaming": "game", "metered": "stream"}


def measured(lab, mode, text, stream):
    """Loss in %, the 99th percentile of delay and the longest gap in ms, and MB on each link, by one run."""
    path = Path("/dev/stdin")
    run = subprocess.run([lab, mode, path, "--json", "-"], input=text, stdout=subprocess.PIPE, text=True)
    results = json.loads(run.stdout)
    traffic = next(it for it in results["traffic"] if it["name"] == stream)
    links = {}
    for link in results["links"]:
        sent = link["rate_mbps"] * results["duration_s"] / 8
        links[link["name"]] = links.get(link["name"], 0) + sent
    return [traffic["loss_percent"], traffic["latency"]["p99_ms"], traffic["longest_gap_ms"], *links.values()], list(links)


def main():
    lab, mode = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    print("| scenario | preset | lost | delay, 99 % | longest gap | on the links |")
    print("|---|---|--:|--:|--:|---|")
    for name, stream in STREAMS.items():
        text = (Path(__file__).parent / f"{name}.toml").read_text()
        if mode == "sim" and "quota" in text:
            continue
        for preset in ["balanced", name]:
            changed = re.sub(r'preset = "\w+"( }|$)', rf'preset = "{preset}"\1', text, flags=re.MULTILINE)
            found = [measured(lab, mode, changed, stream) for _ in range(runs)]
            lost, delay, gap, *links = (statistics.median(column) for column in zip(*(it[0] for it in found)))
            links = ", ".join(f"{link} {sent:.1f} MB" for link, sent in zip(found[0][1], links))
            print(f"| `{name}` | `{preset}` | {lost:.2f} % | {delay:.0f} ms | {gap:.0f} ms | {links} |")


main()
