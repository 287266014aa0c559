# Source this. It needs Debian's apt-get and dpkg-deb.

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
