"""Dask listens only where it says, and talks in TLS where there are certificates."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT, TESTS

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.cli.main import main
from tauslab.options.dask import DaskOptions, dask_options
from tauslab.options.ensemble import Options
from tauslab.options.values.sample_times import sample_times
from tauslab.runner.dask import cluster as dask_cluster
from tauslab.runner.dask.cluster import open_workers
from tauslab.store.results.digest import digest_lines

SCHLOGL = TESTS / "data" / "sbml" / "schlogl.xml"
RUN = ["run", str(SCHLOGL), "-n", "60", "--t-end", "1", "--points", "3", "--seed", "5", "--method",
       "ssa", "--device", "cpu", "--threads", "1", "--quiet"]  # fmt: skip

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="no Dask (pip install tauslab[dask])"
)
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")


def certificate(folder, name="cert"):
    """A certificate that is its own authority, and its key."""
    files = folder / f"{name}.pem", folder / f"{name}-key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256", "-days", "2",
         "-subj", "/CN=test", "-out", files[0], "-keyout", files[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return files[0], *files


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Digests of the run on one process."""
    path = tmp_path_factory.mktemp("plain") / "plain.h5"
    assert main([*RUN, "-o", str(path)]) == 0
    return digests(path)


def digests(path):
    with ts.open(path) as result:
        return digest_lines(result, None)


def options_of(files):
    return [word for pair in zip(("ca", "cert", "key"), files, strict=True)
            for word in (f"--dask-tls-{pair[0]}", str(pair[1]))]  # fmt: skip


def addresses(pids):
    """Addresses on which processes listen for connections, as hexadecimal digits."""
    sockets = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                sockets.add(os.readlink(entry))  # noqa: PTH115 - no path: socket:[1234]
            except FileNotFoundError:
                continue
    actual = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                actual.append(words[1].partition(":")[0])
    return actual


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc")
def test_what_is_started_here_listens_to_this_machine_only():
    chosen = DaskOptions("local", (1, 1))
    options = Options(
        times=sample_times(None, 1.0, 2), dask=chosen, device="cpu", threads=1, quiet=True
    )
    with open_workers(options, lambda: False) as workers:
        pids = [os.getpid(), *workers.client.run(os.getpid).values()]
        dashboard = workers.client.dashboard_link
        actual = addresses(pids)
    assert "127.0.0.1" in dashboard
    assert len(actual) >= 3  # scheduler, worker, nanny; and the dashboard where there is bokeh
    assert set(actual) == {"0100007F"}


@needs_openssl
def test_a_cluster_of_our_own_talks_in_tls(tmp_path, plain):
    import distributed

    seen = []
    real = distributed.LocalCluster

    class Noted(real):
        def __init__(self, **given):
            super().__init__(**given)
            seen.append(self.scheduler_address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "LocalCluster", Noted)
        words = [*RUN, "--executor", "dask", "--workers", "1", *options_of(certificate(tmp_path))]
        assert main([*words, "-o", str(tmp_path / "tls.h5")]) == 0
    assert [address.partition(":")[0] for address in seen] == ["tls"]
    assert digests(tmp_path / "tls.h5") == plain


@needs_openssl
def test_a_scheduler_takes_no_one_without_its_certificates(tmp_path, capsys, monkeypatch):
    from distributed import LocalCluster
    from distributed.security import Security

    monkeypatch.setattr(dask_cluster, "_CONNECT_SECONDS", 1.0)
    authority, cert, key = certificate(tmp_path)
    files = {f"tls_{role}_{kind}": str(file) for role in ("scheduler", "worker", "client")
             for kind, file in (("cert", cert), ("key", key))}  # fmt: skip
    security = Security(tls_ca_file=str(authority), require_encryption=True, **files)
    with LocalCluster(
        n_workers=0, security=security, protocol="tls://", dashboard_address="127.0.0.1:0",
        silence_logs=100,
    ) as cluster:  # fmt: skip
        address = cluster.scheduler_address
        run = [*RUN, "--executor", "dask", "-o", str(tmp_path / "a.h5"), "--scheduler"]
        for words in (
            [address],
            [address, *options_of(certificate(tmp_path, "other"))],
            [address.replace("tls://", "tcp://")],
        ):
            assert main([*run, *words]) == 2
            message = capsys.readouterr().err
            assert message.strip().count("\n") == 0
            assert "no Dask scheduler answers there" in message
    assert not (tmp_path / "a.h5").exists()


@needs_openssl
def test_files_that_are_no_certificates(tmp_path, capsys):
    authority, cert, key = certificate(tmp_path)
    (tmp_path / "text.pem").write_text("no certificate")
    run = [*RUN, "--executor", "dask", "--workers", "1", "-o", str(tmp_path / "a.h5")]
    for files, sentence in (
        ((authority, cert, tmp_path / "none.pem"), "there is no such file"),
        ((tmp_path / "text.pem", cert, key), "no certificates and key in PEM that fit"),
        ((authority, cert, certificate(tmp_path, "other")[2]), "no certificates and key in PEM"),
    ):
        assert main([*run, *options_of(files)]) == 2
        message = capsys.readouterr().err
        assert sentence in message
        assert message.strip().count("\n") == 0
    assert main([*run, "--dask-tls-ca", str(authority)]) == 2
    assert "TLS needs three files" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="its address begins with tls://"):
        dask_options("dask", "tcp://a:1", None, tls=(authority, cert, key))
    with pytest.raises(ConfigError, match=r"goes with executor=ts.Dask\(\) only"):
        dask_options("mpi", None, None, tls=(authority, cert, key))


@pytest.mark.validate  # starts three programs of Dask; tests/mpi/test_slurm.py runs it under SLURM
@needs_openssl
@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="no bash")
def test_the_batch_script_encrypts_and_leaves_no_key_behind(tmp_path, plain):
    """As under SLURM, with an `srun` that starts one worker on this machine."""
    programs = tmp_path / "bin"
    programs.mkdir()
    stub = programs / "srun"
    stub.write_text(
        '#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nprintf "%s\\n" "$*" >> srun.words\n'
        'exec "$@"\n'
    )
    stub.chmod(0o755)
    tools = Path(sys.executable).parent
    if not (tools / "dask").exists():
        pytest.skip("no dask command beside the interpreter")
    environment = {
        **os.environ, "PATH": f"{programs}:{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "7",
        "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_CPUS_PER_TASK": "1",
        "DASK_LOGGING__DISTRIBUTED": "info",
    }  # fmt: skip
    done = subprocess.run(
        ["/bin/bash", ROOT / "slurm" / "dask.sbatch", *RUN[1:], "-o", "out.h5"],
        env=environment, cwd=tmp_path, timeout=100, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search("Scheduler at: +tls://", done.stderr)
    assert done.stderr.index("End worker") < done.stderr.index("End scheduler")
    assert "Traceback" not in done.stderr
    assert "--tls-key" in (tmp_path / "srun.words").read_text()
    assert digests(tmp_path / "out.h5") == plain
    left = {p.name for p in tmp_path.iterdir()}
    assert not {name for name in left if name.startswith(".dask")}
