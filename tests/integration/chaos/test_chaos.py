"""Random job programs under seeded schedules of faults; chaos.py says what is checked. HVD_CHAOS_SCHEDULES says how
many, 50 unless told; script/test fuzz runs 1,000. HOROVOD_TEST_SEED says where to begin."""
import os
import subprocess
import sys

import pytest

import chaos
import program
import schedule
import world
from world import until

SCHEDULES = int(os.environ.get("HVD_CHAOS_SCHEDULES", "50"))
FIRST = int(os.environ.get("HOROVOD_TEST_SEED", "0"))


def test_every_schedule_of_faults_ends_as_without_them():
    results = chaos.run_all(FIRST, SCHEDULES)
    failed = [text for _, _, text in results if text]
    assert not failed, f"{len(failed)} of {SCHEDULES} schedules failed\n\n" + "\n\n".join(failed[:3])
    assert len(results) == SCHEDULES


def test_one_operator_lives_through_many_schedules_without_growing():
    """One process, one program after the other, each in its own namespace with faults on its way."""
    here, sizes = world.World(), []
    try:
        here.start()
        for number in [number for number in range(50) if not program.setting(number).gang][:20]:
            plan = schedule.draw(number, len(program.draw(number)))
            for at, whats in plan.items():
                plan[at] = [what for what in whats if what != ("blow", "kill_operator")]
            namespace = f"n{number}"
            chaos.run(number, plan, the_world=here, namespace=namespace)
            here.control("DELETE", f"objects?resource=horovodjobs&namespace={namespace}")
            chaos.wait_quiet(here)
            sizes.append(here.memory_kib())
        assert here.n_operators == 1
        room = 64 if here.is_sanitized() else 2048
        assert max(sizes[10:]) < max(sizes[:10]) + room, f"memory in KiB: {sizes}"
        assert here.end() == 0
    finally:
        if here.server.poll() is None:
            here.end()
        here.forget()


def test_every_watch_is_back_soon_after_all_connections_were_dropped():
    """Without TLS, too: nothing waits there for a connection to share."""
    here = world.World()
    try:
        here.start()
        for _ in range(3):
            until("all are watched", lambda: here.control("GET", "state")["watches"] >= 7, 10)
            here.drop_connections()
        # Streams are begun anew after 240 s in any case, 4.8 s of real time.
        until("all are watched again", lambda: here.control("GET", "state")["watches"] >= 7, 4)
    finally:
        here.end()
        here.forget()


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_alone_draws_the_same_program_and_schedule(seed):
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import program, schedule; n = int(sys.argv[2]); "
            "print(*program.draw(n), schedule.draw(n, len(program.draw(n))), sep='\\n')")
    drawn = {subprocess.run([sys.executable, "-c", code, os.path.dirname(__file__), str(seed)], check=True, text=True,
                            stdout=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": str(i)}).stdout for i in range(3)}
    assert len(drawn) == 1
