"""Alerts and dashboard, evaluated by promtool: over what the operator really serves, and over series that must make each
alert fire, or must not."""
import json
import re
import sys

import pytest
import yaml
from conftest import CHART, TOP
from prometheus import TARGET, Promtool, names, parse, series

sys.path.append(str(TOP / "tests/fake"))
from fake import Fake, Operator  # noqa: E402  (the path above)

RULES = CHART / "monitoring" / "rules.yaml"
ALERTS = {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((CHART / "monitoring" / "dashboard.json").read_text())
PANELS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel["targets"]]

LEADER = series("horovod_operator_leader")
REQUESTS = "horovod_operator_api_requests_total"
FAILED, SUCCEEDED = "horovod_operator_jobs_failed_total", "horovod_operator_jobs_succeeded_total"
SLOW = "horovod_operator_event_to_write_seconds_bucket"
BOTH = ("namespace", "job")

# Alert -> (after how many minutes, series that make it fire, series that do not, labels that it has, what $value is).
CASES = {
    "HorovodOperatorDown": (6, {}, {series("horovod_operator_build_info", version="1"): "1x60"}, {}, ""),
    "HorovodOperatorWithoutLeader": (3, {LEADER: "0x60"}, {LEADER: "0x60", series("horovod_operator_leader", pod="b"): "1x60"},
                                     BOTH, ""),
    "HorovodOperatorTwoLeaders": (3, {LEADER: "1x60", series("horovod_operator_leader", pod="b"): "1x60"},
                                  {LEADER: "1x60", series("horovod_operator_leader", pod="b"): "0x60"}, BOTH, ""),
    "HorovodOperatorWatchDown": (3, {series("horovod_operator_watch_up", resource="pods"): "0x60"},
                                 {series("horovod_operator_watch_up", resource="pods"): "1x60"}, {"resource": "pods"}, ""),
    "HorovodOperatorWatchSilent": (2, {series("horovod_operator_watch_age_seconds", resource="jobs"): "500x60"},
                                   {series("horovod_operator_watch_age_seconds", resource="jobs"): "300x60"},
                                   {"resource": "jobs"}, "500"),
    "HorovodOperatorForbidden": (22, {series(REQUESTS, verb="patch", resource="pods", code="403"): "0+1x60"},
                                 {series(REQUESTS, verb="patch", resource="pods", code="409"): "0+1x60"},
                                 {"verb": "patch", "resource": "pods", "code": "403"}, ""),
    "HorovodOperatorApiErrors": (22, {series(REQUESTS, verb="list", resource="pods", code="200"): "0+90x60",
                                      series(REQUESTS, verb="list", resource="pods", code="0"): "0+10x60"},
                                 {series(REQUESTS, verb="list", resource="pods", code="200"): "0+99x60",
                                  series(REQUESTS, verb="list", resource="pods", code="503"): "0+1x60"}, BOTH, ""),
    "HorovodOperatorSlow": (32, {series(SLOW, le="1"): "0+90x60", series(SLOW, le="2.5"): "0+100x60",
                                 series(SLOW, le="+Inf"): "0+100x60"},
                            {series(SLOW, le="1"): "0+100x60", series(SLOW, le="2.5"): "0+100x60",
                             series(SLOW, le="+Inf"): "0+100x60"}, BOTH, ""),
    "HorovodOperatorQueueStuck": (16, {LEADER: "1x60", series("horovod_operator_queue_depth"): "3x60"},
                                  {LEADER: "0x60", series("horovod_operator_queue_depth"): "3x60"}, tuple(TARGET), ""),
    "HorovodOperatorRetries": (46, {series("horovod_operator_retries_total"): "0+60x60"},
                               {series("horovod_operator_retries_total"): "0+1x60"}, BOTH, ""),
    "HorovodJobsFail": (70, {series(FAILED, reason="MasterFailed"): "0+1x90", series(SUCCEEDED): "0x90"},
                        {series(FAILED, reason="MasterFailed"): "0+1x90", series(SUCCEEDED): "0+2x90"}, BOTH, "60"),
}


@pytest.fixture(scope="module")
def promtool(tmp_path_factory):
    return Promtool(tmp_path_factory.mktemp("promtool"))


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory):
    """Two looks at /metrics, before each of which a job has run and the API server has failed once."""
    folder = tmp_path_factory.mktemp("scrapes")
    with Fake(folder) as fake, Operator(fake.kubeconfig(), folder, "--leader-elect=true",
                                        "--lease-namespace=default") as operator:
        operator.wait_ready()
        found = []
        for name in ("one", "two"):
            fake.fault("answer", verb="create", resource="services", code=500)
            fake.apply_job(name)
            fake.wait_state("Succeeded", name)
            found.append(parse(operator.get("/metrics")[1]))
        return found


def recorded(scrapes):
    """The two as series of two samples, a minute apart; what is not in the first one was not there yet."""
    return {series(name, **dict(labels)): f"{scrapes[0].get((name, labels), '_')} {value}"
            for (name, labels), value in scrapes[1].items()}


def alert_at(name, minute, labels, value):
    """The case of promtool: this alert, with these labels; labels None: no alert."""
    expected = []
    if labels is not None:
        labels = labels if isinstance(labels, dict) else {key: TARGET[key] for key in labels}
        texts = {key: re.sub(r"\{\{ \$labels\.([a-z]+) \}\}", lambda m: labels[m[1]], text).replace("{{ $value }}", value)
                 for key, text in ALERTS[name]["annotations"].items()}
        expected = [{"exp_labels": {**labels, **ALERTS[name]["labels"]}, "exp_annotations": texts}]
    return {"alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": expected}]}


def all_labels(name, labels):
    """An alert on a series keeps the labels of its target."""
    kept = CASES[name][1] and isinstance(labels, dict)
    return {**TARGET, **labels} if kept else labels


def test_prometheus_takes_the_rules(promtool, render_all):
    rule = render_all({"operator": {"metrics": {"prometheusRule": {"enabled": True}}}})["PrometheusRule", "horovod-operator"]
    done = promtool.check(yaml.safe_dump(rule["spec"]))
    assert done.returncode == 0 and f"{len(ALERTS)} rules found" in done.stdout, done.stdout


def test_prometheus_would_not_take_a_broken_rule(promtool):
    done = promtool.check(RULES.read_text().replace("> 400", ">> 400"))
    assert done.returncode != 0 and "parse error" in done.stdout


def test_every_alert_has_a_case():
    assert set(CASES) == set(ALERTS)


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_when_it_should(promtool, name):
    minute, values, _, labels, value = CASES[name]
    done = promtool.test(RULES, values, **alert_at(name, minute, all_labels(name, labels), value))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", CASES)
def test_an_alert_is_silent_when_it_should_be(promtool, name):
    minute, _, values, _, _ = CASES[name]
    done = promtool.test(RULES, values, **alert_at(name, minute, None, ""))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", CASES)
def test_an_alert_waits_as_long_as_it_says(promtool, name):
    """A minute before its time it does not fire, however long its cause has been there."""
    minutes = int(ALERTS[name]["for"].removesuffix("m"))
    done = promtool.test(RULES, CASES[name][1], **alert_at(name, minutes - 1, None, ""))
    assert done.returncode == 0, done.stdout


def test_an_alert_with_another_threshold_would_be_noticed(promtool, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(RULES.read_text().replace("> 400", "> 600"))
    name = "HorovodOperatorWatchSilent"
    minute, values, _, labels, value = CASES[name]
    assert promtool.test(other, values, **alert_at(name, minute, all_labels(name, labels), value)).returncode != 0


def test_the_cases_speak_of_series_that_the_operator_serves(scrapes):
    """Names and labels, so that no alert is tested with what never comes."""
    served = {(name, tuple(key for key, _ in labels)) for name, labels in scrapes[1]}
    used = set()
    for _, fires, silent, _, _ in CASES.values():
        for one in (*fires, *silent):
            name, text = one.split("{")
            used.add((name, tuple(sorted(set(re.findall(r'([a-z]+)="', text)) - set(TARGET)))))
    assert used <= served and len(used) >= 8


def test_every_metric_of_alerts_and_panels_is_served(scrapes):
    served = {name for name, _ in scrapes[1]}
    asked = {name for rule in ALERTS.values() for name in names(rule["expr"])}
    asked |= names(json.dumps(DASHBOARD))
    assert asked <= served and len(asked) >= 10


@pytest.mark.parametrize("page", ["operator.md", "monitoring.md"])
def test_every_metric_of_a_page_is_served(scrapes, page):
    served = {name for name, _ in scrapes[1]}
    named = {name for name in names((TOP / "docs" / page).read_text()) if not name.endswith("_")}
    missing = {name for name in named if not served & {name, f"{name}_bucket"}}
    assert len(named) >= 10 and missing <= {"horovod_operator_unreadable_objects_total"}  # which comes with the first one


def without_variables(expression):
    """A panel's expression as Grafana sends it."""
    return expression.replace("$namespace", ".*").replace("$__rate_interval", "2m")


@pytest.mark.parametrize("title, target", PANELS, ids=[f"{title}-{target['refId']}" for title, target in PANELS])
def test_a_panel_shows_something_of_what_the_operator_serves(promtool, scrapes, title, target):
    expression = without_variables(target["expr"])
    assert "$" not in expression
    one = {"eval_time": "1m", "expr": f"count({expression}) > bool 0", "exp_samples": [{"labels": "{}", "value": 1}]}
    done = promtool.test(None, recorded(scrapes), promql_expr_test=[one])
    assert done.returncode == 0, f"{title}: {done.stdout}"


def test_a_panel_about_nothing_would_be_noticed(promtool, scrapes):
    one = {"eval_time": "1m", "expr": "count(horovod_operator_queue_length) > bool 0",
           "exp_samples": [{"labels": "{}", "value": 1}]}
    assert promtool.test(None, recorded(scrapes), promql_expr_test=[one]).returncode != 0


@pytest.mark.parametrize("title, target", PANELS, ids=[f"{title}-{target['refId']}" for title, target in PANELS])
def test_a_legend_names_labels_that_its_series_have(scrapes, title, target):
    grouped = re.search(r"\bby \(([^)]*)\)", target["expr"])
    if grouped:
        known = set(grouped[1].split(", "))
    else:
        known = set(TARGET) | {key for name, labels in scrapes[1] if name in names(target["expr"]) for key, _ in labels}
    assert set(re.findall(r"\{\{([^}]*)\}\}", target["legendFormat"])) <= known, title
