"""A server that acknowledges and sends nothing: no bookmark comes on a watch that had them every second."""
from fake import Operator, until

SILENCE = 90  # seconds without a bookmark, after which a watch is given up


def test_a_watch_without_bookmarks_is_opened_anew_and_misses_nothing(fake, tmp_path):
    fake.configure(bookmark_ms=1000)
    fake.play(run_ms=-1)
    with Operator(fake.kubeconfig(), tmp_path) as process:
        process.wait_ready()
        fake.apply_job("first", replicas=1)
        fake.wait_state("Running", "first")
        until("bookmarks come", lambda: 0 < process.metric("horovod_operator_watch_age_seconds", resource="pods") < 1)
        opened = len([r for r in fake.requests() if r["verb"] == "watch"])
        assert fake.watches("hang", "pods") == 1
        fake.apply_job("second", replicas=1, play={"run_ms": 10})
        until("the watch is given up",
              lambda: process.metric("horovod_operator_watch_silences_total", resource="pods") == 1, SILENCE + 30)
        fake.wait_state("Succeeded", "second")
        until("bookmarks come", lambda: 0 < process.metric("horovod_operator_watch_age_seconds", resource="pods") < 2)
        assert process.metric("horovod_operator_watch_silences_total") == 1
        assert len([r for r in fake.requests() if r["verb"] == "watch"]) == opened + 1
        assert fake.job_state("first") == "Running"
        assert process.stop() == 0
