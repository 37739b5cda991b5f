"""Commands that make and install packages, for the tests."""
import os
import subprocess

from ranks import CACHE, ROOT, environment

TOOLS = CACHE / "python" / "tools"  # made by script/bootstrap python


def call(*command, cwd=ROOT, **extra):
    env = environment(**extra)
    env.pop("PYTHONPATH")
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1200, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-6000:]}"
    return done.stdout
