# Sourced by run and test: makes the virtual environment in $venv and installs the package with the extras in $extras.
# compiles_beside=yes has the run's largest kernel compiled meanwhile, until the script ends.
# PDES_VENV names another place than .venv, PYTHON another interpreter than python3. Not for use by itself.

venv=${PDES_VENV:-$PWD/.venv}
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$0: $python is missing or older than Python 3.11; name another one with PYTHON=..." >&2
    exit 2
fi
[ -x "$venv/bin/pip" ] || "$python" -m venv "$venv"

# One stamp per set of extras: installing again is only needed when what is to be installed has changed.
stamp=$venv/.pdes-sim-$(echo "$extras" | tr ',' '-')
wanted=$(cksum < pyproject.toml)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted $PWD" ]; then
    echo "installing pdes-sim[$extras] and what it needs into $venv, a minute or so" >&2
    pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile"
    if [ "${compiles_beside:-no}" = yes ]; then # the largest kernel needs no more than Numba
        $pip "$(sed -n 's/^ *"\(numba[^"]*\)".*/\1/p' pyproject.toml)"
        PDES_COMPILES_BESIDE=1 "$venv/bin/python" -m models.network.build.warm_up > /dev/null 2>&1 &
    fi
    $pip --editable ".[$extras]"
    # pip does this on one core, and for all modules; of these packages few are ever imported, and compiled then
    seldom='pip|plotly|scipy|pandas|matplotlib|mpl_toolkits|fontTools|PIL|setuptools|pkg_resources|pygments|narwhals'
    "$venv/bin/python" -m compileall -q -j 0 -x "/tests/|/site-packages/($seldom)/" "$venv/lib" > /dev/null || true
    echo "$wanted $PWD" > "$stamp"
fi
PATH=$venv/bin:$PATH
export PATH
