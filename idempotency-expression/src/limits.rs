//! Limits the size and the depth of expressions, because parsers and evaluators recurse.

use crate::SyntaxError;
use crate::tokens::{Kind, Token};

/// The longest expression, in bytes.
pub(crate) const MAX_BYTES: usize = 4096;
/// The most brackets, braces and parentheses inside one another.
const MAX_NESTING: usize = 32;
/// The most steps in a row, which limits the depth of the tree. Steps inside brackets follow those before the brackets.
const MAX_STEPS: usize = 72;

/// Checks that the tree will not be too deep for a small stack.
pub(crate) fn check(tokens: &[Token]) -> Result<(), SyntaxError> {
    // The steps since the last comma, for each open bracket. The first entry is outside of all brackets.
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
                // The parser refuses a bracket that was not opened.
                if open.len() > 1 {
                    open.pop();
                }
            }
            "@" | ":" => {}
            _ => {
                // The parser recurses twice for a symbol that starts a projection.
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
