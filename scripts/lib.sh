# shellcheck shell=bash
# What the scripts share; sourced, not run.
# Afterwards $root is the checkout, $venv its environment, $python the interpreter in it.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
python=$venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_USER=0
# Packages of another environment must not shine through.
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
# Without byte code each of hundreds of child processes would compile the package anew.
unset PYTHONDONTWRITEBYTECODE

say() { printf '%s\n' "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# Whether "$1" runs and is new enough; a version manager's stand-in may exist and not run.
new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

can_make_venv() {
    "$1" -c 'import venv, ensurepip' >/dev/null 2>&1
}

# Print an interpreter of Python >= 3.11, if possible one that can make environments by itself.
find_python() {
    local candidate found=""
    for candidate in ${TAUSLAB_PYTHON:+"$TAUSLAB_PYTHON"} python3 python3.13 python3.12 python3.11 python3.14 python; do
        new_enough "$candidate" || continue
        if can_make_venv "$candidate" || [ "$candidate" = "${TAUSLAB_PYTHON:-}" ]; then
            printf '%s\n' "$candidate"
            return
        fi
        found=${found:-$candidate}
    done
    [ -n "$found" ] || die "no Python 3.11 or newer was found: install it (Debian, Ubuntu: apt install python3 python3-venv) or name one in TAUSLAB_PYTHON"
    printf '%s\n' "$found"
}

# Make an empty $venv with pip in it. Debian keeps ensurepip in a package of its own, hence the other ways.
make_venv() {
    local base
    base=$(find_python)
    rm -rf "$venv"
    if can_make_venv "$base"; then
        "$base" -m venv "$venv"
    elif command -v uv >/dev/null 2>&1; then
        say "$base has no ensurepip: making .venv with uv"
        uv venv --quiet --seed --python "$base" "$venv"
    elif "$base" -m pip --python "$(command -v "$base")" --version >/dev/null 2>&1; then
        say "$base has no ensurepip: its own pip installs pip into .venv"
        "$base" -m venv --without-pip "$venv"
        "$base" -m pip --python "$python" install --quiet pip
    elif command -v virtualenv >/dev/null 2>&1; then
        say "$base has no ensurepip: making .venv with virtualenv"
        virtualenv --quiet --python "$base" "$venv"
    else
        die "$base can make no environment (no ensurepip, no pip, no uv, no virtualenv): install one, for instance with apt install python3-venv"
    fi
}

# The extra that brings a C++ compiler, where the machine has none.
compiler_extra() {
    if ! command -v g++ >/dev/null 2>&1 && ! command -v clang++ >/dev/null 2>&1; then
        say "no g++ and no clang++ here: installing the compiler of the zig extra (411 MB)"
        printf ',zig'
    fi
}

# The extra that compiles the CUDA kernels: with or without a GPU, wherever its wheels exist.
nvrtc_extra() {
    if [ "${TAUSLAB_TEST_NVRTC:-1}" = 0 ]; then
        return
    fi
    case "$(uname -s)-$(uname -m)-$(getconf GNU_LIBC_VERSION 2>/dev/null)" in
    Linux-x86_64-glibc* | Linux-aarch64-glibc*) ;;
    *)
        say "the CUDA compiler has no wheels for this machine: the tests that need it are skipped"
        return
        ;;
    esac
    # A driver of CUDA 12 loads nothing that is linked to CUDA 13.
    if nvidia-smi 2>/dev/null | grep -q 'CUDA Version: 12'; then
        printf ',cuda12'
    else
        printf ',nvrtc'
    fi
}

# ensure_env EXTRAS: .venv with tauslab installed in place and these extras.
# Each set of extras that is complete leaves a line in the stamp file, so a second call costs nothing;
# the line depends on pyproject.toml and on where the checkout is, since an environment cannot move.
ensure_env() {
    local extras stamp stamps=$venv/tauslab-stamps
    extras=$1$(compiler_extra)
    stamp=$({ printf '%s\n' "$root" "$extras"; cat "$root/pyproject.toml"; } | sha256sum | cut -d' ' -f1)
    if new_enough "$python" && grep -qxF "$stamp" "$stamps" 2>/dev/null; then
        return
    fi
    local begin=$SECONDS
    say "setting up .venv with tauslab[$extras]"
    if ! new_enough "$python" || ! "$python" -m pip --version >/dev/null 2>&1 || ! grep -qxF "$root" "$venv/tauslab-root" 2>/dev/null; then
        make_venv
        printf '%s\n' "$root" >"$venv/tauslab-root"
    fi
    # Python compiles what is imported; the other modules of a hundred packages would take half a minute.
    (cd "$root" && "$python" -m pip install --quiet --progress-bar off --no-compile -e ".[$extras]") ||
        die "the packages of tauslab[$extras] could not be installed: see pip's message above"
    printf '%s\n' "$stamp" >>"$stamps"
    say "environment ready after $((SECONDS - begin)) s"
}
