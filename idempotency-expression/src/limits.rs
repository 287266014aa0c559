//! Bounds on what is handed to parsers and evaluators that recurse.

use crate::SyntaxError;
use crate::tokens::{Kind, Token};

/// The longest expression, in bytes.
pub(crate) const MAX_BYTES: usize = 4096;
/// Brackets, braces and parentheses inside one another.
const MAX_NESTING: usize = 32;
/// Steps one after the other, those in brackets after those before: what bounds the depth of the tree.
const MAX_STEPS: usize = 72;

/// Refuses what would make the tree too deep to walk on a small stack.
pub(crate) fn check(tokens: &[Token]) -> Result<(), SyntaxError> {
    // Steps so far between the commas of each open bracket; the first entry stands outside all of them.
    let mut open = vec![0_usize];
    for token in tokens {
        let Kind::Symbol(symbol) = token.kind else {
            continue;
        };
        let Some(steps) = open.last_mut() else {
            continue;
        };
        match symbol {
            "," => *steps = 0,
            "]" | ")" | "}" => {
                // One too many is the parser's to refuse.
                if open.len() > 1 {
                    open.pop();
                }
            }
            "@" | ":" => {}
            _ => {
                // What starts a projection is parsed by more functions that call one another.
                let projects = matches!(symbol, "[" | "[?" | "[]" | "*");
                *steps += if projects { 2 } else { 1 };
                if matches!(symbol, "[" | "[?" | "(" | "{") {
                    open.push(0);
                }
            }
        }
        if open.len() > MAX_NESTING + 1 {
            return Err(SyntaxError::new(
                token.offset,
                format!("more than {MAX_NESTING} brackets inside one another"),
            ));
        }
        if open.iter().sum::<usize>() > MAX_STEPS {
            return Err(SyntaxError::new(
                token.offset,
                format!("more than {MAX_STEPS} steps one after the other"),
            ));
        }
    }
    Ok(())
}
