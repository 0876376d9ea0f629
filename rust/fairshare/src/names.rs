//! Parts of an accounting name such as `physics.lep.joe@example.org`.

/// Text after the last `@`; empty when there is none.
#[must_use]
pub fn domain_of(submitter: &str) -> &str {
    submitter.rsplit_once('@').map_or("", |(_, domain)| domain)
}

/// Group part of a submitter name: what stands before the last dot of the
/// part before `@`; empty when there is none.
#[must_use]
pub fn group_part(submitter: &str) -> &str {
    let local = submitter
        .rsplit_once('@')
        .map_or(submitter, |(local, _)| local);
    local.rsplit_once('.').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_split_at_the_last_dot_and_at() {
        let name = "a.b.joe@x.org";
        assert_eq!((group_part(name), domain_of(name)), ("a.b", "x.org"));
        assert_eq!((group_part("joe@x"), domain_of("joe@x")), ("", "x"));
        assert_eq!((group_part("joe"), domain_of("joe")), ("", ""));
    }
}
