#!/usr/bin/env python3
"""Random job programs under random faults: each run must end as the same program ends without faults, with nothing
left over, nothing written for ever, and the operator alive.

    tests/integration/chaos/chaos.py [--seed N] [--count M] [--operator PROGRAM] [--jobs J] [--first]

One seed is one program (the same for five seeds in a row) under one schedule of faults. A seed that fails is printed
with what was wrong and with what was done; the same command with that seed does it again."""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import sys
import time

import play
import program
import schedule
import state
import world
from world import until

PER_PROGRAM = 5
QUIET_S = 0.15  # of real time without a write: many seconds of fast time
NAMESPACE = "chaos"
FINAL = ("Succeeded", "Failed", "InvalidTemplate")


@dataclasses.dataclass
class End:
    """How a run ended."""
    objects: dict
    events: dict
    n_writes: int
    seconds: float


class Wrong(AssertionError):
    """A run did not end as it must."""


def writes(records):
    """What the operator wrote, of the server's records, successful or not; its lease does not count."""
    return [r for r in records if r["verb"] in ("create", "update", "patch", "delete") and r["resource"] != "leases"]


def wait_quiet(the_world, limit=play.LIMIT):
    """Returns when the operator has written nothing for a while; Wrong if that never comes."""
    end = time.monotonic() + limit
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < QUIET_S:
        found = len(writes(the_world.records()))
        if found != seen:
            seen, since = found, time.monotonic()
        if time.monotonic() > end:
            raise Wrong("the operator writes and writes: " + json.dumps(writes(the_world.records())[-6:]))
        time.sleep(0.03)


def wait_settled(player, jobs):
    """Until each job is where its spec wants it, and gone if its TTL says so."""
    for job in jobs:
        player.current = job
        player.wait(job)
        found = player.job(job)
        if found and "ttlSecondsAfterFinished" in found["spec"] and found["status"]["state"] in ("Succeeded", "Failed"):
            player.until(f"{job} is removed after its TTL", lambda job=job: player.job(job) is None)


def check_events(ended, wanted, steps):
    """Each event once per occurrence: final ones exactly, others no more often than the program caused them."""
    wrong = []
    deleted = {step.job for step in steps if step.do == "delete"}  # perhaps before anybody saw them
    for key in sorted({*ended, *wanted}):
        job, reason = key.split()
        n = ended.get(key, 0)
        causes = sum(1 for step in steps if step.job == job and step.do in program.CAUSES)
        if (reason in FINAL or reason == "Restarting") and n != wanted.get(key, 0) and job not in deleted:
            wrong.append(f"{n} events {reason} of {job}, not {wanted.get(key, 0)}")
        elif n > max(wanted.get(key, 0), causes + 1):
            wrong.append(f"{n} events {reason} of {job}, which had {causes} causes")
    return wrong


def check_leaks(objects):
    """Children whose job is gone or is another."""
    jobs = {key.split("/")[1] for key in objects if key.startswith("horovodjobs/")}
    return [f"{key} is left over" for key, found in objects.items() for owner in found["metadata"].get("ownerReferences", [])
            if owner["kind"] == "HorovodJob" and owner["name"] not in jobs]


def hurt(the_world, what):
    kind, value = what
    if kind == "rule":
        the_world.add_fault(value)
    else:
        getattr(the_world, value)()


def run(number, plan, wanted=None, operator=None, the_world=None, namespace=NAMESPACE):
    """Plays a program under a plan of faults ({} for none); compares with wanted, how it ended without faults."""
    steps, begin = program.draw(number), time.monotonic()
    here = the_world or world.World(operator, program.setting(number))
    player = play.Player(here, namespace)
    try:
        if not the_world:
            here.start()
        first = len(here.records())
        for at, step in enumerate(steps):
            for what in plan.get(at, []):
                hurt(here, what)
            player.do(step)
        for what in plan.get(len(steps), []):
            hurt(here, what)
        here.heal()
        jobs = sorted({step.job for step in steps})
        wait_settled(player, jobs)
        if wanted:
            until(lambda: "the state without faults:\n  " + "\n  ".join(
                state.difference(wanted.objects, state.take(here.api, namespace))[:20]),
                lambda: state.take(here.api, namespace) == wanted.objects, play.LIMIT,
                  is_possible=here.look)
        wait_quiet(here)
        objects, events = state.take(here.api, namespace), state.events(here.api, namespace)
        n_writes = len(writes(here.records())) - len(writes(here.records()[:first]))
        wrong = check_leaks(objects)
        if wanted:
            n_hits = here.n_hits()
            wrong += state.difference(wanted.objects, objects) + check_events(events, wanted.events, steps)
            most = 2 * wanted.n_writes + 10 * (n_hits + len(steps))
            if n_writes > most:
                wrong.append(f"{n_writes} writes; {wanted.n_writes} without faults, {n_hits} faults struck")
        if not here.is_alive():
            wrong.append("the operator is dead")
        if not the_world:
            code = here.end()
            if code not in (0, -15):  # a signal that comes before it listens ends it, too
                wrong.append(f"the operator ended with {code}")
        if wrong:
            raise Wrong("\n  ".join(wrong))
        return End(objects, events, n_writes, time.monotonic() - begin)
    except Exception as error:
        if not the_world:
            error.log = here.words()
        raise
    finally:
        if not the_world:
            if here.server.poll() is None:
                here.end()
            here.forget()


def tell(seed, error, plan):
    """What a reader needs to see and to repeat a failure."""
    number = seed // PER_PROGRAM
    lines = [f"seed {seed} fails: {type(error).__name__}: {error}",
             f"repeat it: tests/integration/chaos/chaos.py --seed {seed}", f"program {number}:"]
    for at, step in enumerate([*program.draw(number), "the end"]):
        lines += [f"      !! {json.dumps(value)}" for _, value in plan.get(at, [])] + [f"  {at:2d}  {step}"]
    return "\n".join(lines) + "\nthe operator's log ends:\n" + getattr(error, "log", "")


def run_seeds(seeds, operator):
    """(seed, seconds, text of what was wrong or None) for seeds of one program."""
    number, results = seeds[0] // PER_PROGRAM, []
    try:
        wanted = run(number, {}, operator=operator)
    except Exception as error:  # whatever is wrong, it is told with its seed
        return [(seeds[0], 0, tell(seeds[0], error, {}))]
    for seed in seeds:
        plan = schedule.draw(seed, len(program.draw(number)))
        begin = time.monotonic()
        try:
            run(number, plan, wanted, operator)
            results.append((seed, time.monotonic() - begin, None))
        except Exception as error:
            results.append((seed, time.monotonic() - begin, tell(seed, error, plan)))
    return results


def run_all(first, count, operator=None, jobs=None, on_result=None):
    """Results of so many seeds, in the order in which they end."""
    groups = {}
    for seed in range(first, first + count):
        groups.setdefault(seed // PER_PROGRAM, []).append(seed)
    results = []
    with concurrent.futures.ProcessPoolExecutor(jobs or 2 * os.cpu_count()) as pool:
        waiting = [pool.submit(run_seeds, seeds, operator) for seeds in groups.values()]
        for done in concurrent.futures.as_completed(waiting):
            for result in done.result():
                results.append(result)
                if on_result and on_result(result):
                    for other in waiting:
                        other.cancel()
                    return results
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed (0)")
    parser.add_argument("--count", type=int, default=1, metavar="M", help="how many seeds (1)")
    parser.add_argument("--operator", metavar="PROGRAM", help="another build of the operator")
    parser.add_argument("--jobs", type=int, metavar="J", help="runs at once (twice the processors)")
    parser.add_argument("--first", action="store_true", help="end with the first that fails")
    parser.add_argument("--verbose", action="store_true", help="a line for each seed")
    options = parser.parse_args()
    begin = time.monotonic()

    def told(result):
        seed, seconds, text = result
        if text:
            print(text, flush=True)
        elif options.verbose:
            print(f"seed {seed}: {seconds:.2f} s", flush=True)
        return text is not None and options.first
    results = run_all(options.seed, options.count, options.operator, options.jobs, told)
    failed = sorted(seed for seed, _, text in results if text)
    print(f"{len(results)} schedules, {len(failed)} failed{f': {failed}' if failed else ''}, "
          f"{time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
