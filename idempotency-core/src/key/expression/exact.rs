//! Finds expressions that look up a header by its exact name. Their result depends on the API that sends the event.

use super::compile::Node;

/// Returns the name in the first `headers.name` or `multiValueHeaders.name` that applies to the event itself, and not to a
/// part of it, such as the body.
pub(super) fn header(node: &Node) -> Option<&str> {
    match node {
        Node::Chain(left, right) => match (&**left, &**right) {
            (Node::Field(place), rest)
                if matches!(place.as_str(), Some("headers" | "multiValueHeaders")) =>
            {
                first_name(rest)
            }
            _ => header(left),
        },
        Node::List(parts) => parts.iter().find_map(|part| header(&part.node)),
        Node::Hash(members) => members.iter().find_map(|(_, part)| header(&part.node)),
        Node::Project { over, .. } => header(over),
        Node::Or(left, right) | Node::And(left, right) | Node::Compare { left, right, .. } => {
            header(left).or_else(|| header(right))
        }
        Node::Values(inner) | Node::Flatten(inner) | Node::Not(inner) => header(inner),
        Node::Call { arguments, .. } => arguments.iter().find_map(header),
        Node::Current | Node::Field(_) | Node::Index(_) | Node::Slice { .. } | Node::Literal(_) => {
            None
        }
    }
}

/// Returns the name at the beginning of a look-up in an object.
fn first_name(node: &Node) -> Option<&str> {
    match node {
        Node::Field(name) => name.as_str(),
        Node::Chain(left, _) => first_name(left),
        _ => None,
    }
}
