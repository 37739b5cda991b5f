"""docs/ci.md does what it says: every step that it shows runs in the worker image, as the page has it run there."""
import argparse
import os
import re
import shlex

import pytest
import yaml
from conftest import TOP

PAGE = (TOP / "docs" / "ci.md").read_text()
VERSION = (TOP / "VERSION").read_text().strip()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


def workflow_job():
    (workflow,) = (yaml.safe_load(text) for text in blocks("yaml"))
    (job,) = workflow["jobs"].values()
    return job


STEPS = [step for step in workflow_job()["steps"] if "run" in step]
COMMANDS = [line for text in blocks("sh") for line in text.splitlines()]


def engine_options():
    """The options of `docker run` that the page uses; any other fails the test."""
    parser = argparse.ArgumentParser(prog="docker run")
    parser.add_argument("--rm", action="store_true")
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--user")
    parser.add_argument("--tmpfs", action="append", default=[])
    parser.add_argument("-v", dest="volume", default=None)
    parser.add_argument("-w", dest="directory", default=None)
    parser.add_argument("image")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser


@pytest.fixture
def workspace(tmp_path):
    """A checkout of the runner's user."""
    folder = tmp_path / "workspace"
    folder.mkdir(mode=0o755)
    return folder


def give_to(folder, user):
    os.chown(folder, int(user), int(user))


def test_the_page_shows_steps_and_commands_of_the_current_version():
    assert len(STEPS) >= 3 and len(COMMANDS) >= 2
    assert set(re.findall(r"horovod-worker:([0-9.]+[0-9])", PAGE)) == {VERSION}


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[step["name"] for step in STEPS])
def test_a_step_of_the_workflow_succeeds_in_the_image(worker, workspace, number):
    container = workflow_job()["container"]
    user = re.fullmatch(r"--user (\d+)", container["options"])[1]
    give_to(workspace, user)
    done = worker.run(["sh", "-e", "-c", STEPS[number]["run"]], user=user, read_only=False, mounts={workspace: "/__w"},
                      cwd="/__w", env={"HOME": "/__w", "CI": "true"}, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_step_that_fails_in_the_image_is_noticed(worker, workspace):
    give_to(workspace, "1001")
    done = worker.run(["sh", "-e", "-c", "horovodrun -np 2 false\ntrue"], user="1001", mounts={workspace: "/__w"}, cwd="/__w")
    assert done.returncode == 1


@pytest.mark.parametrize("line", COMMANDS)
def test_a_plain_command_succeeds_in_the_image(worker, workspace, line):
    words = shlex.split(line.replace("$PWD", str(workspace)))
    assert words[:2] == ["docker", "run"]
    options = engine_options().parse_args(words[2:])
    assert options.image in worker.image.tags
    give_to(workspace, options.user)
    mounts = dict([options.volume.rsplit(":", 1)]) if options.volume else {}
    done = worker.run(options.command, user=options.user, read_only=options.read_only, tmpfs=options.tmpfs, mounts=mounts,
                      cwd=options.directory, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    if mounts:
        assert any(workspace.iterdir()), "the mounted folder was not written to"
