# Source this in the root of the checkout. It builds and runs the programs that compare a store with requests by hand.

# build <name>: builds benches/<name>.
build() {
    CARGO_TARGET_DIR=target/benches/$1 cargo build --manifest-path benches/Cargo.toml --package "$1" --release --locked
}

# The command that starts a server on a core of its own. It is empty on a machine with one core.
on_core=()
(($(nproc) == 1)) || on_core=(taskset --cpu-list 1)

# compare <name> <address> <version> [--quick]: runs it against a server of this version, prints its table, and writes that to
# benches/results/<name>.md, between the title and the text on standard input. With --quick it makes a few calls, and writes nothing.
compare() {
    local name=$1 address=$2 version=$3 status=0 load title
    # Beside the core of the server: if the two wander over the cores, a block of calls takes up to three times as long as the next one.
    local program=(taskset --cpu-list 0 "target/benches/$1/release/$1")
    if [[ ${4:-} == --quick ]]; then
        "${program[@]}" "$address" 2 </dev/null
        return
    fi
    load=$(cut -d' ' -f1 /proc/loadavg)
    "${program[@]}" "$address" </dev/null | tee "$scratch/table" || status=$?
    read -r title
    {
        printf '# %s\n\n' "$title"
        printf 'Made by `benches/%s.sh`, on %s with %s cores and a load of %s, on %s.\n\n' "$name" "$(date -u +%F)" "$(nproc)" "$load" "$version"
        cat - <(echo) "$scratch/table"
    } >"benches/results/$name.md"
    return "$status"
}
