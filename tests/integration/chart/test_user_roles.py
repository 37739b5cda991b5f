"""The rights of users: the chart adds HorovodJobs to the built-in roles edit and view, and a real API server applies them."""
import json

import pytest
import yaml
from conftest import TOP, wait_for

PREFIX = "training-horovod-horovodjob"
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
READ = {"get", "list", "watch"}
WRITE = {"create", "update", "patch", "delete", "deletecollection"}
JOB = {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": "digits"},
       "spec": {"image": "i", "command": ["digits"], "worker": {"replicas": 2}}}


def verbs(role):
    return {resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]}


def roles(objects):
    """The names of all roles of users."""
    return {name for kind, name in objects if kind == "ClusterRole" and "horovodjob-" in name}


def test_editors_write_jobs_and_sizes_and_read_the_status_and_viewers_read(render_all):
    objects = render_all()
    editor, viewer = (objects["ClusterRole", f"{PREFIX}-{name}"] for name in ("editor", "viewer"))
    assert verbs(editor) == {"horovodjobs": READ | WRITE, "horovodjobs/scale": {"get", "update", "patch"},
                             "horovodjobs/status": {"get"}}
    assert verbs(viewer) == {"horovodjobs": READ, "horovodjobs/scale": {"get"}, "horovodjobs/status": {"get"}}
    for role, into in ((editor, {"edit", "admin"}), (viewer, {"view", "edit", "admin"})):
        labels = role["metadata"]["labels"]
        assert {key.removeprefix(AGGREGATE) for key in labels if key.startswith(AGGREGATE)} == into


@pytest.mark.parametrize("values, rendered", [
    ({}, True), ({"rbac": {"userRoles": False}}, False), ({"rbac": {"create": False}}, False),
    ({"rbac": {"create": False, "userRoles": True}}, True), ({"operator": {"namespace": "team"}}, False),
    ({"operator": {"namespace": "team"}, "rbac": {"userRoles": True}}, True),
    ({"operator": {"enabled": False}, "rbac": {"userRoles": True}}, False)])
def test_the_roles_of_users_come_with_the_operator_of_the_cluster_or_when_asked_for(render_all, values, rendered):
    assert len(roles(render_all(values))) == (2 if rendered else 0)


@pytest.fixture
def team(install, kubectl):
    """act(USER, WORDS..., stdin): kubectl as a user of the namespace team, in which editor has edit and viewer has view."""
    install()
    kubectl("create", "namespace", "team")
    for user, role in (("editor", "edit"), ("viewer", "view"), ("owner", "admin")):
        kubectl("-n", "team", "create", "rolebinding", user, "--clusterrole", role, "--user", user)

    def act(user, *words, stdin=None):
        return kubectl("-n", "team", f"--as={user}", *words, stdin=stdin, check=False)

    for user in ("editor", "viewer", "owner"):
        wait_for(f"the rights of {user}", lambda user=user: act(user, "get", "horovodjobs").returncode == 0)
    yield act
    kubectl("delete", "namespace", "team", "--wait=false")


def patch(act, user, subresource, body):
    """Whether the server takes the patch; another refusal than for want of a right fails."""
    words = [f"--subresource={subresource}"] if subresource else []
    done = act(user, "patch", "horovodjob", "digits", "--type=merge", *words, "-p", json.dumps(body))
    assert done.returncode == 0 or "is forbidden" in done.stderr.lower(), done.stderr
    return done.returncode == 0


def test_edit_creates_scales_and_deletes_jobs_and_view_reads_them_and_nobody_writes_their_status(team):
    create = ("create", "-f", "-")
    refused = team("viewer", *create, stdin=yaml.safe_dump(JOB))
    assert refused.returncode != 0 and 'User "viewer" cannot create resource "horovodjobs"' in refused.stderr
    done = team("editor", *create, stdin=yaml.safe_dump(JOB))
    assert done.returncode == 0, done.stderr

    for user in ("editor", "viewer", "owner"):
        assert team(user, "get", "horovodjobs", "-o", "name").stdout == "horovodjob.horovod.io/digits\n"
        for subresource in ("scale", "status"):
            done = team(user, "get", "horovodjob", "digits", f"--subresource={subresource}")
            assert done.returncode == 0, done.stderr
    for user, writes in (("editor", True), ("owner", True), ("viewer", False)):
        assert patch(team, user, "", {"spec": {"suspend": True}}) == writes
        assert patch(team, user, "scale", {"spec": {"replicas": 3}}) == writes
        assert not patch(team, user, "status", {"status": {"state": "Failed"}})
    assert team("viewer", "delete", "horovodjob", "digits").returncode != 0
    done = team("editor", "delete", "horovodjob", "digits")
    assert done.returncode == 0, done.stderr


def test_the_guides_binding_gives_a_team_the_right_to_create_jobs(install, kubectl):
    install()
    guide = (TOP / "docs" / "multi-tenant.md").read_text()

    def words(start):
        line, = (line.strip() for line in guide.splitlines() if line.startswith(f"    kubectl {start}"))
        return line.split()[1:]
    kubectl("create", "namespace", "team-a")
    kubectl(*words("create rolebinding"))
    wait_for("the right to create jobs", lambda: kubectl(*words("auth can-i create"), check=False).stdout == "yes\n")
    assert kubectl(*words("auth can-i update"), check=False).stdout == "no\n"
    kubectl("delete", "namespace", "team-a", "--wait=false")


def test_without_the_roles_edit_has_no_right_to_jobs(install, kubectl):
    """So the roles make the difference in the test before."""
    install({"rbac": {"userRoles": False}})
    kubectl("create", "namespace", "other")
    kubectl("-n", "other", "create", "rolebinding", "editor", "--clusterrole", "edit", "--user", "editor")
    try:
        wait_for("the right to pods", lambda: kubectl("-n", "other", "--as=editor", "get", "pods", check=False).returncode == 0)
        wait_for("the end of the right to jobs", lambda: "is forbidden" in kubectl(
            "-n", "other", "--as=editor", "get", "horovodjobs", check=False).stderr.lower())
    finally:
        kubectl("delete", "namespace", "other", "--wait=false")
