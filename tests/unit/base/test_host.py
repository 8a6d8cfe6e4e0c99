"""Cores that a process may use: in a container, and where the system is not Linux."""

from __future__ import annotations

import os

import pytest

from tauslab.base import host
from tauslab.base.host import allowed_cores, cores_of_rank


@pytest.fixture
def groups(monkeypatch, tmp_path):
    """An empty machine of 64 cores: the folder of its control groups, and a way to join one."""
    proc = tmp_path / "proc" / "self"
    proc.mkdir(parents=True)
    monkeypatch.setattr(host, "PROC", proc.parent)
    monkeypatch.setattr(host, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)

    def join(lines, **files):
        (proc / "cgroup").write_text(lines)
        for name, text in files.items():
            path = tmp_path / "groups" / name.replace("__", "/").replace("cpu_", "cpu.")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    return join


def test_all_cores_that_the_process_is_bound_to(groups):
    assert allowed_cores() == 64  # there are no control groups
    groups("0::/job\n", job__cpu_max="max 100000")
    assert allowed_cores() == 64


@pytest.mark.parametrize(("quota", "cores"), [(200000, 2), (150000, 2), (1000, 1), (9900000, 64)])
def test_a_container_has_a_share_of_their_time(groups, quota, cores):
    groups("0::/job/step\n", job__cpu_max=f"{quota} 100000", job__step__cpu_max="max 100000")
    assert allowed_cores() == cores


def test_groups_of_the_first_version(groups):
    files = {"cpu__job__cpu_cfs_quota_us": "400000", "cpu__job__cpu_cfs_period_us": "100000"}
    groups("4:memory:/other\n1:cpu,cpuacct:/job\n", **files)
    assert allowed_cores() == 4
    groups("1:cpu:/job\n", cpu__job__cpu_cfs_quota_us="-1")
    assert allowed_cores() == 64


def test_a_system_that_binds_no_process(groups, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    assert allowed_cores() == 10
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert allowed_cores() == 1


@pytest.mark.parametrize(
    ("sharers", "asked", "cores"),
    [
        (1, None, 64),
        (4, None, 16),
        (100, None, 1),
        (1, "1", 1),  # SLURM that binds no task: all 64 would be taken
        (4, "32", 16),
        (4, "8", 8),
        (1, "many", 64),
    ],
)
@pytest.mark.parametrize("name", ["SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"])
def test_cores_of_one_of_several_ranks(groups, name, sharers, asked, cores):
    environment = {} if asked is None else {name: asked}
    assert cores_of_rank(sharers, environment) == cores


def test_threads_of_nested_regions_are_a_list(groups):
    given = {"OMP_NUM_THREADS": "6,2", "SLURM_CPUS_PER_TASK": "8"}
    assert cores_of_rank(1, given) == 6
    assert cores_of_rank(1, {"OMP_NUM_THREADS": "0"}) == 64


def test_threads_that_dask_sets_later_are_no_limit(groups, monkeypatch):
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    monkeypatch.setitem(host._at_import, "OMP_NUM_THREADS", "")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert cores_of_rank(1) == 64
    host.keep_environment()
    assert cores_of_rank(1) == 1


def test_memory_where_the_system_does_not_tell_what_is_free(monkeypatch, tmp_path):
    names = {k: v for k, v in os.sysconf_names.items() if k != "SC_AVPHYS_PAGES"}
    monkeypatch.setattr(os, "sysconf_names", names)
    monkeypatch.setattr(host, "PROC", tmp_path)
    assert host.available_memory() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
