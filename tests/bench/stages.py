"""`script/bench nodes --stages`: where the time goes from a pod's change to the request that follows from it.

Marks come from three places: the API server's audit log (when a request was received and answered), the operator's debug log
(when it looked at the network, took an object in, made a request and let it leave; operator/app/stages.h), and a client that
does nothing but watch the same pods (follower.py), whose times are the floor. A mark never lies before the one before it, so
the stages of an event add up to its total. The rest is the kernel's: how long each program ran, and how long it waited for a
processor; and the Go runtime's: how long goroutines of kube-apiserver waited to be run.
"""
import bisect
import pathlib
import re
import statistics
import subprocess
import sys
import time

import jobs

FOLLOWER = pathlib.Path(__file__).with_name("follower.py")
SLOW = 0.05  # the slowest part of the events, which has columns of its own
FLOOR = "a watch alone has the line"
WAITED = "the operator waits for a processor"
SERVER, LOOK, TAKE = "the server sends the line", "the operator looks", "it takes the object in"
DECIDE, LEAVE = "it makes the request", "the request leaves"
RECEIVE, ANSWER = "the server has the request", "the server has answered"
EVENT_SENT, EVENT_ANSWERED, EVENT_BACK = "the event is at the server", "the event is answered", "the status follows the event"
WORDS = re.compile(r'(\w+)=("[^"]*"|\S*)')


# --- what is read --------------------------------------------------------------------------------------------------

def boot_offset_us():
    """What is added to a time of CLOCK_BOOTTIME to have one of the time of day."""
    return (time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) // 1000


class Trace:
    """The operator's debug log, its times as seconds of the time of day."""

    def __init__(self, text, offset_us):
        self.came, self.made, self.answered, self.left, self.waited = {}, {}, {}, [], []
        for line in text.splitlines():
            if "subsystem=stages" in line:
                self.take({key: value.strip('"') for key, value in WORDS.findall(line)}, offset_us)
        self.left.sort()
        self.waited.sort()

    def take(self, words, offset_us):
        at = {key: (int(words[key]) + offset_us) / 1e6 for key in ("at_us", "before_us", "woken_us", "looked_us") if key in words}
        if "waited_us" in words:
            self.waited.append((at["at_us"], int(words["waited_us"]) / 1e6))
        if words["msg"] == "requests left":
            self.left.append(at["at_us"])
        elif words["msg"] == "object came":
            self.came.setdefault((words["resource"], words["name"], words["version"]), at)
        else:
            found = self.made if words["msg"] == "request made" else self.answered
            what = words["resource"] + ("/status" if words.get("subresource") else "")
            found.setdefault((words["job"].split("/")[1], what), []).append(at["at_us"])

    def left_after(self, at):
        """When the requests that were made at that time had left."""
        i = bisect.bisect_left(self.left, at)
        return self.left[i] if i < len(self.left) else at

    def waited_between(self, begin, end):
        """For how long the operator waited for a processor, as far as its lines tell."""
        if not self.waited:
            return 0.0
        first = max(bisect.bisect_right(self.waited, (begin, float("inf"))) - 1, 0)
        last = min(bisect.bisect_left(self.waited, (end, 0.0)), len(self.waited) - 1)
        return max(0.0, self.waited[last][1] - self.waited[first][1])


def read_follower(text):
    """name -> (state -> (when its first line came, version)), in seconds."""
    found = {}
    for line in text.splitlines():
        at_us, name, version, state = line.split()
        found.setdefault(name, {}).setdefault(state, (int(at_us) / 1e6, version))
    return found


def openings(text):
    """How often the follower opened its watch."""
    return sum(line.split()[1] == "opened" for line in text.splitlines())


class Follower:
    """The client that only watches, while the `with` statement lasts; then `text` is what it saw."""

    def __init__(self, kubeconfig, ns, folder):
        self.path, self.text = pathlib.Path(folder) / f"{ns}.follower", ""
        self.process = subprocess.Popen([sys.executable, FOLLOWER, kubeconfig, ns, self.path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        assert self.process.stdout.readline(), "the follower does not start"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()
        self.text = self.path.read_text(encoding="utf-8")


# --- stages of one event -------------------------------------------------------------------------------------------

def in_order(marks):
    """[(stage, time)] with the beginning first -> stage -> milliseconds; no mark lies before another or after the last."""
    found, at, end = {}, marks[0][1], marks[-1][1]
    for name, mark in marks[1:]:
        mark = min(max(mark, at), end)
        found[name] = 1000 * (mark - at)
        at = mark
    return found


def first_after(times, at):
    return min((t for t in times if t >= at), default=at)


def arrival(trace, seen, begin):
    """The marks until the operator has taken in the pod's version, and then; None: no watch brought it."""
    came = trace.came.get(("pods", *seen)) if seen else None
    if not came:
        return None
    return [("", begin), (SERVER, came["before_us"]), (LOOK, came["looked_us"]), (TAKE, came["at_us"])], came


def with_rest(trace, marks, began, floor):
    """The stages, and beside them the floor and the operator's waits for a processor."""
    left = dict(marks).get(LEAVE, marks[-1][1])
    return in_order(marks) | {FLOOR: 1000 * max(0.0, floor - marks[0][1]),
                              WAITED: 1000 * trace.waited_between(began["before_us"], left)}


def ready_stages(trace, follower, ready, master):
    """From the last worker's being Ready to the answer to the request for the master's Job. ready: (pod, when);
    master: its record of the audit log."""
    (pod, begin), seen = ready, follower.get(ready[0], {}).get("ready")
    found = arrival(trace, seen and (pod, seen[1]), begin)
    if not found:
        return None
    marks, came = found
    made = first_after(trace.made.get((master["name"].rsplit("-master", 1)[0], "jobs"), []), came["at_us"])
    marks += [(DECIDE, made), (LEAVE, trace.left_after(made)), (RECEIVE, master["at"]), (ANSWER, master["done"])]
    return with_rest(trace, marks, came, seen[0])


def ended_stages(trace, follower, ended, status, events):
    """From the end of the master's pod to the answer to the status. ended: (pod, when); status: its record; events: those of
    the events about the job."""
    (pod, begin), seen = ended, follower.get(ended[0], {}).get("succeeded")
    found = arrival(trace, seen and (pod, seen[1]), begin)
    if not found:
        return None
    marks, came = found
    job = status["name"]
    made = first_after(trace.made.get((job, "horovodjobs/status"), []), came["at_us"])
    before = [at for at in trace.made.get((job, "events"), []) if came["at_us"] <= at <= made]
    if before:
        left = trace.left_after(before[0])
        sent = [r for r in events if before[0] <= r["at"] <= made]
        marks += [(DECIDE, before[0]), (LEAVE, left)]
        if sent:
            marks += [(EVENT_SENT, max(r["at"] for r in sent)), (EVENT_ANSWERED, max(r["done"] for r in sent))]
        marks += [(EVENT_BACK, trace.left_after(made))]
    else:
        marks += [(DECIDE, made), (LEAVE, trace.left_after(made))]
    return with_rest(trace, marks + [(RECEIVE, status["at"]), (ANSWER, status["done"])], came, seen[0])


def without(stages, last):
    """The stages without that one: an event that ends where it begins."""
    return {name: ms for name, ms in stages.items() if name != last}


# --- who waited for a processor ------------------------------------------------------------------------------------

BESIDE = (FLOOR, WAITED)  # no parts of the total
ORDER = (SERVER, LOOK, TAKE, DECIDE, LEAVE, EVENT_SENT, EVENT_ANSWERED, EVENT_BACK, RECEIVE, ANSWER)


def total(stages):
    return sum(ms for name, ms in stages.items() if name not in BESIDE)


def table(events):
    """Lines (stage, p50, p99, share, p50 among the slowest, share there); the last three are the total and what is beside it."""
    names = [name for name in ORDER if any(name in stages for stages in events)]
    slow = sorted(events, key=total)[-max(1, round(SLOW * len(events))):]

    def line(name, value):
        sums = [sum(value(stages) for stages in some) / max(sum(map(total, some)), 1e-9) for some in (events, slow)]
        of_all, of_slow = [value(stages) for stages in events], [value(stages) for stages in slow]
        return (name, jobs.quantile(of_all, 0.5), jobs.quantile(of_all, 0.99), sums[0], statistics.median(of_slow), sums[1])
    return [*(line(name, lambda stages, name=name: stages.get(name, 0.0)) for name in names), line("total", total),
            *(line(name, lambda stages, name=name: stages.get(name, 0.0)) for name in BESIDE)]


def show(title, events):
    print(f"\n{title}: {len(events)} events, ms\n{'':<38} {'p50':>8} {'p99':>8} {'share':>7}   {'slowest 5 %: p50':>16} {'share':>7}")
    for name, p50, p99, share, slow, slow_share in table(events):
        print(f"{name:<38} {p50:>8.1f} {p99:>8.1f} {100 * share:>5.0f} %   {slow:>16.1f} {100 * slow_share:>5.0f} %")


class Processors:
    """Of each of these programs, while the `with` statement lasts: seconds that it ran, and that its threads waited. Threads that
    ended meanwhile are left out."""

    def __init__(self, pids):
        self.pids, self.spent, self.wall_s = pids, {}, 0.0

    def __enter__(self):
        self.begin, self.at = {name: jobs.scheduled_s(pid) for name, pid in self.pids.items()}, time.monotonic()
        return self

    def __exit__(self, *_):
        self.wall_s = time.monotonic() - self.at
        self.spent = {name: tuple(max(0.0, now - then) for now, then in zip(jobs.scheduled_s(pid), self.begin[name]))
                      for name, pid in self.pids.items()}


def goroutine_waits(before, after):
    """(mean ms, p99 ms, n) of go_sched_latencies_seconds between two pages of metrics; None when there is no such metric."""
    def buckets(text):
        return {float(edge): float(n) for edge, n in
                re.findall(r'^go_sched_latencies_seconds_bucket\{le="([^"]+)"\} (\S+)', text, re.M)}

    def seconds(text):
        return sum(map(float, re.findall(r"^go_sched_latencies_seconds_sum (\S+)", text, re.M)))
    first, last = buckets(before), buckets(after)
    counts = {edge: last[edge] - first.get(edge, 0) for edge in sorted(last)}
    n = max(counts.values(), default=0)
    if not n:
        return None
    return (1000 * (seconds(after) - seconds(before)) / n, 1000 * next(edge for edge, below in counts.items() if below >= 0.99 * n),
            int(n))


def show_processors(processors, waits, opened):
    print(f"\nprocessors, {processors.wall_s:.1f} s: {'program':<26} {'ran s':>8} {'waited s':>9}")
    for name, (ran, waited) in processors.spent.items():
        print(f"{'':<20} {name:<26} {ran:>8.2f} {waited:>9.2f}")
    if waits:
        print(f"goroutines of kube-apiserver waited to be run {waits[0]:.2f} ms as the mean, 99 % less than {waits[1]:.2f} ms ({waits[2]})")
    print(f"watches of pods, the first and those after one that the server ended: {opened[0]} of the operator, {opened[1]} of the follower")
