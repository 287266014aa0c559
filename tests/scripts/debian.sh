# Source this. It needs Debian's apt-get and dpkg-deb, and ends the script on another system than that of the servers.

[[ $(uname -sm) == 'Linux x86_64' ]] || { echo "the servers are programs for Linux on x86_64" >&2; exit 1; }

# unpack_debian <folder> <package ...>: unpacks packages of Debian into a folder. None is installed.
unpack_debian() {
    local folder=$1 root=()
    shift
    mkdir -p "$folder"
    (
        cd "$folder"
        if ! apt-get download -qq "$@" 2>/dev/null; then
            ((EUID == 0)) || root=(sudo -n)
            "${root[@]}" apt-get update -qq
            apt-get download -qq "$@"
        fi
        for package in *.deb; do dpkg-deb --extract "$package" .; done
        rm ./*.deb
    )
}
