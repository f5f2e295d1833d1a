#!/usr/bin/env python3
"""Sets `psmc select` beside HiGHS, a solver of mixed-integer programs, on networks by chance.

    python3 -m venv /tmp/highs && /tmp/highs/bin/pip install highspy
    cargo build --release --bin psmc
    /tmp/highs/bin/python benches/selection/highs.py target/release/psmc --networks 50

For each network, both find the most bandwidth over at most nine relays, and the fewest relays that carry it. Fails if
they differ, or if ours is not proven.
"""

import argparse
import heapq
import json
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict

import highspy

MOST_PATHS = 9
TOLERANCE = 1e-6


def topology(psmc, model, nodes, relays, seed):
    command = [psmc, "topology", model, "--nodes", nodes, "--relays", relays, "--seed", seed]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def directions(network):
    """Arcs by what they are called: (link, from) -> (from, to, bandwidth, latency)."""
    arcs = {}
    for number, link in enumerate(network["link"]):
        ends = [(link["from"], link["to"])]
        if not link.get("directed", False):
            ends.append((link["to"], link["from"]))
        for tail, head in ends:
            arcs[number, tail] = (tail, head, link["bandwidth_mbps"], round(link["latency_ms"] * 1e6))
    return arcs


def fastest(arcs, root, ends, towards):
    """The arc that leads to each node on the fastest way from the root, or away from it towards the root."""
    beside = defaultdict(list)
    for name, (tail, head, _, latency) in arcs.items():
        near, far = (head, tail) if towards else (tail, head)
        beside[near].append((far, latency, name))
    best, via, queue = {root: (0, 0)}, {}, [((0, 0), root)]
    while queue:
        distance, node = heapq.heappop(queue)
        # Source and destination forward nothing.
        if best[node] != distance or (node in ends and node != root):
            continue
        for far, latency, name in beside[node]:
            there = (distance[0] + latency, distance[1] + 1)
            if far not in best or there < best[far]:
                best[far], via[far] = there, name
                heapq.heappush(queue, (there, far))
    return via


def routes(network):
    """The arcs of the route over each relay."""
    arcs = directions(network)
    source, destination = network["source"], network["destination"]
    ends = {source, destination}
    there = fastest(arcs, source, ends, towards=False)
    on = fastest(arcs, destination, ends, towards=True)
    found = []
    for relay in (relay["name"] for relay in network["relay"]):
        route, node = [], relay
        while node != source:
            route.append(there[node])
            node = arcs[there[node]][0]
        node = relay
        while node != destination:
            route.append(on[node])
            node = arcs[on[node]][1]
        found.append(route)
    return arcs, found


def program(arcs, candidates):
    """Which candidates, and how much over each, so that no arc carries more than it can."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 1e-9)
    widths = [min(arcs[arc][2] for arc in route) for route in candidates]
    chosen = [solver.addBinary() for _ in candidates]
    carried = [solver.addVariable(0, width) for width in widths]
    users = defaultdict(list)
    for number, route in enumerate(candidates):
        solver.addConstr(carried[number] <= widths[number] * chosen[number])
        for arc in route:
            users[arc].append(carried[number])
    for arc, flows in users.items():
        solver.addConstr(sum(flows) <= arcs[arc][2])
    solver.addConstr(sum(chosen) <= MOST_PATHS)
    return solver, sum(chosen), sum(carried)


def by_highs(network):
    arcs, candidates = routes(network)
    solver, _, bandwidth = program(arcs, candidates)
    solver.maximize(bandwidth)
    most = solver.getObjectiveValue()
    solver, paths, bandwidth = program(arcs, candidates)
    solver.addConstr(bandwidth >= most - TOLERANCE)
    solver.minimize(paths)
    return most, round(solver.getObjectiveValue())


def by_psmc(psmc, text):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        options = ["--objective", "bandwidth", "--least-share", "0", "--max-paths", str(MOST_PATHS), "--json"]
        command = [psmc, "select", file.name, *options]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return answer["bandwidth_mbps"], len(answer["paths"]), answer["proven_optimal"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("psmc", help="the program")
    parser.add_argument("--networks", type=int, default=50, help="how many of each kind")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--relays", type=int, default=20)
    options = parser.parse_args()
    wrong, spent = 0, [0.0, 0.0]
    for model in ("transit-stub", "waxman"):
        for seed in range(1, options.networks + 1):
            text = topology(options.psmc, model, options.nodes, options.relays, seed)
            start = time.monotonic()
            most, fewest = by_highs(tomllib.loads(text))
            middle = time.monotonic()
            bandwidth, paths, proven = by_psmc(options.psmc, text)
            spent = [spent[0] + middle - start, spent[1] + time.monotonic() - middle]
            if abs(bandwidth - most) > TOLERANCE * max(1.0, most) or paths != fewest or not proven:
                wrong += 1
                print(f"{model} {seed}: HiGHS {most} over {fewest}, ours {bandwidth} over {paths}, proven: {proven}")
    print(f"{2 * options.networks - wrong} of {2 * options.networks} networks agree and are proven; "
          f"HiGHS {spent[0]:.1f} s, ours {spent[1]:.1f} s with the start of the program")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
