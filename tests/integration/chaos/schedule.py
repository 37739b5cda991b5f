"""Random schedules of what goes wrong between the operator and the API server, drawn from a number alone. A rule is
what tests/fake/apiserver/README.md describes; a blow is something done once, by a method of play.Player."""
import random

CHILDREN = ["secrets", "services", "statefulsets", "configmaps", "jobs", "podgroups"]
RESOURCES = ["horovodjobs", *CHILDREN, "pods"]
WEBHOOK = 'admission webhook "policy.example.com" denied the request: not now'
BLOWS = ["kill_operator", "expire_token", "forget_versions", "drop_connections"]


def draw_write(rng):
    """Something wrong with writes."""
    rule = {"verb": rng.choice(["write", "create", "patch", "delete"]), "nth": rng.randint(1, 6),
            "times": rng.choice([1, 1, 2, 3])}
    if rng.random() < 0.4:
        rule["resource"] = rng.choice(RESOURCES + ["events"])
    kind = rng.random()
    if kind < 0.2:
        # Not of events: their names say what happened, so the operator takes the server's word that they exist.
        verb = rule["verb"] = rng.choice(["create", "patch"])
        rule.update(action="answer", code=409, reason="AlreadyExists" if verb == "create" else "Conflict",
                    resource=rng.choice(CHILDREN if verb == "create" else RESOURCES))
    elif kind < 0.35:
        rule.update(action="answer", code=429, reason="TooManyRequests", retry_after=rng.choice([0, 1, 2]))
    elif kind < 0.5:
        rule.update(action="answer", code=rng.choice([500, 502, 503, 504]), executed=rng.random() < 0.3)
    elif kind < 0.58:
        # Not of events: a namespace that forbids them is served without.
        code, message = rng.choice([(403, "exceeded quota: compute"), *[(code, WEBHOOK) for code in (400, 403, 422)]])
        rule.update(verb=rng.choice(["create", "patch"]) if code != 403 else "create", action="answer", code=code,
                    reason={400: "BadRequest", 403: "Forbidden", 422: "Invalid"}[code], message=message,
                    resource=rng.choice(CHILDREN))
    elif kind < 0.7:
        rule.update(action="drop", executed=rng.random() < 0.6)
    elif kind < 0.8:
        rule.update(action="half", executed=True, bytes=rng.randint(1, 400))
    elif kind < 0.87:
        rule.update(action="slow", bytes=rng.choice([1, 16, 64]), delay_ms=rng.choice([10, 200]))
    elif kind < 0.92:
        rule.update(action="hang", executed=rng.random() < 0.5, times=1)
    elif kind < 0.96:
        rule.update(action="garbage", executed=rng.random() < 0.5)
    else:
        rule.update(action="delay", delay_ms=rng.choice([100, 2000, 10000]))
    return rule


def draw_read(rng):
    """Something wrong with lists, watches and reads."""
    rule = {"verb": rng.choice(["list", "watch", "watch", "watch", "get"]), "nth": rng.randint(1, 4),
            "times": rng.choice([1, 1, 2])}
    if rng.random() < 0.7:
        rule["resource"] = rng.choice([*RESOURCES, *{"get": ["nodes"], "list": ["events"]}.get(rule["verb"], [])])
    is_watch = rule["verb"] == "watch"
    kind = rng.random()
    if is_watch and kind < 0.3:
        rule.update(action=rng.choice(["duplicate", "reorder"]), after_events=rng.randint(0, 3),
                    times=rng.choice([1, 3]))
    elif kind < 0.45:
        rule.update(action="answer", code=410, reason="Expired")
        if is_watch:
            rule["after_events"] = rng.randint(0, 4)
    elif kind < 0.6:
        rule.update(action="answer", code=rng.choice([429, 500, 503]))
        if rule["code"] == 429:
            rule.update(reason="TooManyRequests", retry_after=1)
    elif kind < 0.75:
        rule.update(action="drop")
    elif kind < 0.85:
        rule.update(action="half", bytes=rng.randint(1, 2000))
    elif kind < 0.92:
        rule.update(action="slow", bytes=rng.choice([16, 256]), delay_ms=rng.choice([10, 100]))
    elif kind < 0.96:
        rule.update(action="garbage")
    else:
        rule.update(action="delay", delay_ms=rng.choice([500, 5000]))
    return rule


def draw(number, n_steps):
    """What to do before which step of a program: {step: [("rule", rule) or ("blow", name), ...]}; n_steps + 1 places."""
    rng = random.Random(f"schedule {number}")
    plan = {}

    def put(what):
        plan.setdefault(rng.randint(0, n_steps), []).append(what)

    for _ in range(rng.randint(1, 6)):
        put(("rule", draw_write(rng) if rng.random() < 0.6 else draw_read(rng)))
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        put(("blow", rng.choice(BLOWS)))
    if rng.random() < 0.2:  # a bad hour: a part of everything fails
        plan.setdefault(0, []).append(("rule", {"action": rng.choice(["drop", "answer"]), "code": 503,
                                                "chance": rng.choice([0.05, 0.2]), "times": 60}))
    return plan
