//! What is expected of an event, and the error that shows what was observed instead.

use std::fmt;

use crate::observation::{Action, Observation};

/// What should happen to an event.
#[derive(Clone, Debug)]
#[must_use = "pass it to `check`"]
pub(crate) struct Expectation {
    action: Action,
    runs: usize,
    requests: &'static str,
    response: String,
    payload: Option<String>,
    key: Option<String>,
}

impl Expectation {
    /// Expects that the function does `action`, sends `requests` to DynamoDB, and responds with `response`.
    pub(crate) fn new(action: Action, requests: &'static str, response: impl Into<String>) -> Self {
        let ran = matches!(
            action,
            Action::Ran | Action::Unprotected | Action::Failed | Action::Killed
        );
        Self {
            action,
            runs: usize::from(ran),
            requests,
            response: response.into(),
            payload: None,
            key: None,
        }
    }

    /// Expects the response of an earlier event, byte for byte, without a run.
    pub(crate) fn replay(action: Action, requests: &'static str, first: &Observation) -> Self {
        Self {
            payload: first.payload.clone(),
            ..Self::new(action, requests, &first.response)
        }
    }

    /// Expects the key of an earlier event.
    pub(crate) fn with_key_of(mut self, first: &Observation) -> Self {
        self.key = first.key().map(str::to_owned);
        self
    }

    /// Expects this many runs; for batches.
    pub(crate) fn runs(mut self, runs: usize) -> Self {
        self.runs = runs;
        self
    }

    /// Compares the expectation with what was observed at `place`.
    pub(crate) fn check(
        &self,
        place: &str,
        observed: &Observation,
    ) -> Result<(), UnmetExpectation> {
        let same_payload = self.payload.is_none() || self.payload == observed.payload;
        let same_key = self.key.is_none() || self.key.as_deref() == observed.key();
        let met = self.action == observed.action
            && self.runs == observed.runs
            && self.requests == observed.requests()
            && self.response == observed.response
            && same_payload
            && same_key;
        if met {
            return Ok(());
        }
        Err(UnmetExpectation {
            place: place.to_owned(),
            expected: describe(
                self.action,
                self.runs,
                self.key.as_deref(),
                self.requests,
                &self.response,
            ),
            observed: describe(
                observed.action,
                observed.runs,
                observed.key(),
                &observed.requests(),
                &observed.response,
            ),
            payload_differs: !same_payload,
        })
    }
}

fn describe(
    action: Action,
    runs: usize,
    key: Option<&str>,
    requests: &str,
    response: &str,
) -> String {
    let key = key.unwrap_or("any or none");
    format!("{action} (runs: {runs}); key: {key}; DynamoDB: {requests}; response: {response}")
}

/// The observation differs from the expectation.
#[derive(Debug)]
pub(crate) struct UnmetExpectation {
    place: String,
    expected: String,
    observed: String,
    payload_differs: bool,
}

impl fmt::Display for UnmetExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a promise was not kept at {}", self.place)?;
        writeln!(f, "  expected  {}", self.expected)?;
        write!(f, "  observed  {}", self.observed)?;
        if self.payload_differs {
            write!(f, " (the bytes of the first response differ)")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnmetExpectation {}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached() -> Observation {
        Observation {
            runs: 0,
            action: Action::Cached,
            requests: Vec::new(),
            response: "201 pay-1".to_owned(),
            payload: Some("{}".to_owned()),
        }
    }

    #[test]
    fn an_observation_that_meets_the_expectation_passes() {
        let expected = Expectation::replay(Action::Cached, "none", &cached());
        expected.check("step 1", &cached()).unwrap();
    }

    #[test]
    fn the_error_names_the_place_the_expectation_and_the_observation() {
        let expected = Expectation::replay(Action::Cached, "none", &cached());
        let charged_again = Observation {
            runs: 1,
            action: Action::Unprotected,
            response: "201 pay-2".to_owned(),
            ..cached()
        };
        let error = expected
            .check("step 2, event 4", &charged_again)
            .unwrap_err();
        let error = error.to_string();
        for part in [
            "step 2, event 4",
            "expected  cached response (runs: 0)",
            "201 pay-1",
            "observed  ran unprotected (runs: 1)",
            "201 pay-2",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_difference_in_any_part_is_an_error() {
        let expected = Expectation::replay(Action::Cached, "none", &cached());
        let others = [
            Observation {
                runs: 1,
                ..cached()
            },
            Observation {
                action: Action::Refused,
                ..cached()
            },
            Observation {
                response: "201 pay-9".to_owned(),
                ..cached()
            },
            Observation {
                payload: Some("{ }".to_owned()),
                ..cached()
            },
        ];
        for other in others {
            expected.check("step 1", &other).unwrap_err();
        }
        let with_requests = Expectation::replay(Action::Cached, "Put✗", &cached());
        with_requests.check("step 1", &cached()).unwrap_err();
    }
}
