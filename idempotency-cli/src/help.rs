//! What `--help` says of a command after its options: examples, then what an option alone cannot say. A paragraph is one line here: it
//! is wrapped to the width of the terminal.

pub(crate) const ALL: &str = "\
Examples:
  idempotency key --expression order_id --prefix shop.charge event.json
  idempotency get 'shop.charge#e31b8b84a9be62e9ae878d3fb2b80004'
  idempotency list --held";

pub(crate) const KEY: &str = "\
Examples:
  idempotency key --expression order_id --prefix shop.charge event.json
  idempotency get \"$(idempotency key -e order_id -p shop.charge event.json)\"
  idempotency key --http --caller-value u-1 --prefix shop.pay request.json

Only the key goes to standard output. More lines go to standard error.

With --jsonl each line of the input is one object: {\"event\": \"<the event as JSON text>\", \"expression\": \"...\", \
\"prefix\": \"...\", \"validate\": \"...\", \"hash\": \"...\"}. Only `event` is required; the options are the defaults of the others. \
The output has one line for each, in the same order: {\"key\": ..., \"text\": ..., \"validation\": ...}, {\"no_key\": true} or \
{\"error\": \"...\"}; `missing` lists the parts of the key that the event does not have. A bad line gets an error; the exit code is 0.";

/// What commands on the store read beside their options.
macro_rules! settings {
    () => {
        "\n\nKeys, attribute names, region, endpoint and credentials come from the same environment variables as in the functions: \
         IDEMPOTENCY_TABLE, IDEMPOTENCY_*_ATTR, IDEMPOTENCY_STATIC_PK_VALUE, AWS_REGION, AWS_ENDPOINT_URL_DYNAMODB, AWS_PROFILE, ..."
    };
}

pub(crate) const GET: &str = concat!(
    "\
Examples:
  idempotency get 'shop.charge#e31b8b84a9be62e9ae878d3fb2b80004'
  idempotency get 'shop.charge#e31b8b84a9be62e9ae878d3fb2b80004' --show-data",
    settings!()
);

pub(crate) const REPLAY: &str = concat!(
    "\
Examples:
  idempotency replay 'shop.charge#e31b8b84a9be62e9ae878d3fb2b80004'
  idempotency replay 'shop.charge#e31b8b84a9be62e9ae878d3fb2b80004' \\
      --invoke charge:live

The output is what the operation keeps under `store_event`: the event itself under `all`, otherwise what its expression selects.

--invoke needs the event itself, and the record of a run that did not complete: its lease has expired, or its failure is recorded. \
A key that is held under on_timeout = \"hold\" must be resolved first (`idempotency resolve --rerun`). The function is invoked once, \
and never again after a failure. It needs the permission lambda:InvokeFunction; AWS_ENDPOINT_URL_LAMBDA sets another endpoint.",
    settings!()
);

pub(crate) const RESOLVE: &str = concat!(
    "\
Examples:
  idempotency resolve 'shop.charge#e31b8b84a9be62e9ae878d3fb2b80004' --rerun \\
      --by ana@example.com --reason 'no charge at the provider'
  idempotency resolve 'shop.charge#e31b8b84a9be62e9ae878d3fb2b80004' \\
      --completed '{\"payment_id\":\"pay-17\"}' \\
      --by ana@example.com --reason 'pay-17 is paid, ticket 991'

The decision is written only if the record is still the one that was shown. It stays in the record: who decided, why and when. Put \
no personal data into it. A call that runs the handler again replaces the record, and the decision with it.

The response must have the form in which the function stores it; compare `idempotency get --show-data` of another call.",
    settings!()
);

pub(crate) const LIST: &str = concat!(
    "\
Examples:
  idempotency list --held
  idempotency list --held --yes --json --read-units 50000

A claim is found if its lease has expired and its run reported no failure. Its state is `held` if it was made under \
on_timeout = \"hold\", and `lease_over` if the next call of an operation under rerun takes it over. A claim without a lease is found \
too, as `no_lease`, and a key whose steps are half undone, as `undoing` or `held`.

DynamoDB reads and bills all items, and returns those that were found. The command says what this costs and asks. It needs \
dynamodb:Scan, on a table with a sort key dynamodb:Query, and dynamodb:DescribeTable. On a table with provisioned capacity it takes \
that of the functions. Ctrl-C ends it, and it prints where to go on.",
    settings!()
);

pub(crate) const EVICT: &str = concat!(
    "\
Examples:
  idempotency evict 'shop.charge#e31b8b84a9be62e9ae878d3fb2b80004'",
    settings!()
);

pub(crate) const EXPIRE: &str = "\
Examples:
  IDEMPOTENCY_STORE=postgres idempotency expire
  idempotency expire --pieces-of 500 --at-most 100000

Each piece is a transaction of its own, so it can be ended and run again at any time. A completed record is deleted an hour after its \
end, every other one two weeks after; a held claim ends in ten years. Rows that a transaction holds stay. Run it each hour, by cron or \
EventBridge Scheduler.

DynamoDB deletes expired records by its TTL, and Valkey by itself.

The server and the table come from the same environment variables as in the functions: IDEMPOTENCY_POSTGRES_URL, \
IDEMPOTENCY_POSTGRES_TABLE, ...";

pub(crate) const TABLE: &str = "\
Examples:
  idempotency table create --table idempotency
  idempotency table check --table idempotency";

pub(crate) const CREATE: &str = concat!(
    "\
Examples:
  idempotency table create --table idempotency",
    settings!()
);

pub(crate) const CHECK: &str = concat!(
    "\
Examples:
  idempotency table check --table idempotency
  idempotency table check --prefix shop.charge --json",
    settings!()
);

pub(crate) const TEMPLATE: &str = "\
Examples:
  idempotency table template --format terraform --function Payment=payments \\
      --function Refund=refunds --alarms Shop >table.tf

The attribute names are those of the functions: IDEMPOTENCY_KEY_ATTR, IDEMPOTENCY_SORT_KEY_ATTR, IDEMPOTENCY_STATIC_PK_VALUE and \
IDEMPOTENCY_EXPIRY_ATTR. No table and no credentials are needed. The template goes to standard output. Without --table and \
IDEMPOTENCY_TABLE the tool chooses the table's name; in Terraform it is `idempotency`.";

pub(crate) const COST: &str = "\
Examples:
  idempotency cost
  idempotency cost --response 2000 --write-price 0.625 --read-price 0.125

W is a write unit and R a read unit of DynamoDB. Prices are yours: look them up for your region, on demand or provisioned. With prices \
the output has two more tables: money for a million calls, and the share of duplicates above which read-first is cheaper. A response \
is reckoned as one attribute that is not compressed; all other attributes of its record as 256 bytes.";

pub(crate) const PLAN: &str = "\
Examples:
  idempotency plan --rate 30/m --lifetime 1h

The numbers are those of `once::plan` of the crate dynamodb-writes. DynamoDB accepts items of at most 400 KB, and one partition takes \
1,000 write units a second. The exit code is 1 if an item cannot hold the rate.";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  idempotency completions bash \\
      >~/.local/share/bash-completion/completions/idempotency
  idempotency completions zsh >~/.zfunc/_idempotency
  idempotency completions fish >~/.config/fish/completions/idempotency.fish
  idempotency completions powershell >>$PROFILE";

pub(crate) const MAN: &str = "\
Examples:
  idempotency man ~/.local/share/man/man1";

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use crate::arguments::Arguments;

    /// Returns every command, with the subcommands of subcommands.
    fn commands() -> Vec<Command> {
        let mut all = Arguments::command().term_width(80);
        all.build();
        let mut open = vec![all];
        let mut found = Vec::new();
        while let Some(command) = open.pop() {
            let inner = command.get_subcommands();
            open.extend(inner.filter(|it| it.get_name() != "help").cloned());
            found.push(command);
        }
        found
    }

    /// Returns the words of a line of a shell without a `$` that counts. What is redirected does not count.
    fn words(line: &str) -> Vec<String> {
        let quoted = line.split('\'').enumerate();
        let words = quoted.flat_map(|(number, part)| match number % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        words.take_while(|word| !word.starts_with('>')).collect()
    }

    #[test]
    fn every_command_has_an_example_that_it_takes() {
        for command in commands() {
            let help = command.get_after_long_help().map(ToString::to_string);
            let help = help.unwrap_or_default().replace("\\\n", "");
            let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
            let examples: Vec<_> = lines.filter(|it| it.starts_with("idempotency")).collect();
            assert_ne!(examples.len(), 0, "{}", command.get_name());
            for example in examples.iter().filter(|line| !line.contains("$(")) {
                let taken = Arguments::command().try_get_matches_from(words(example));
                assert!(taken.is_ok(), "{example}: {taken:?}");
            }
        }
    }

    #[test]
    fn help_begins_with_what_a_command_does_and_fits_into_80_columns() {
        for mut command in commands() {
            let about = command.get_about().unwrap().to_string();
            let first = about.split(' ').next().unwrap().to_owned();
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                assert!(help.starts_with(&first), "{help}");
                let long = help.lines().find(|line| line.chars().count() > 80);
                assert_eq!(long, None, "{}", command.get_name());
            }
        }
    }
}
