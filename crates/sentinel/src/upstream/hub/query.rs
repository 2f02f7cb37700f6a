//! How spellings of a query are told to be the same.
//!
//! The grammar of every version allows spaces around `=`, `<` and `>`, and wants some around words
//! (`libs/pubsub/query`). Other white space has a meaning in some versions only, so it is left to the node.

/// A query in the one spelling in which the node is asked for it: without spaces where none are
/// needed, outside its quotes. A spelling that differs in these is never refused where this one is taken,
/// so nobody who shares it can be refused for another one's spelling.
pub(in crate::upstream) fn canonical(query: &str) -> String {
    let mut canonical = String::with_capacity(query.len());
    let (mut is_quoted, mut is_spaced) = (false, false);
    for letter in query.trim_matches(' ').chars() {
        if letter == ' ' && !is_quoted {
            is_spaced = true;
            continue;
        }
        // Between two operators a space stays: `< =` is not `<=`.
        let is_needed = is_operator(letter) == canonical.ends_with(is_operator);
        if std::mem::take(&mut is_spaced) && is_needed {
            canonical.push(' ');
        }
        is_quoted ^= letter == '\'';
        canonical.push(letter);
    }
    canonical
}

/// A query without any white space: queries that the node may take for the same are equal in this form.
pub(super) fn without_spaces(query: &str) -> String {
    query
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .collect()
}

const fn is_operator(letter: char) -> bool {
    matches!(letter, '=' | '<' | '>')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_query_are_one() {
        for query in [
            "tm.event='New  Block' AND block.height>=5",
            " tm.event  = 'New  Block'  AND block.height >= 5 ",
        ] {
            let expected = "tm.event='New  Block' AND block.height>=5";
            assert_eq!(canonical(query), expected);
        }
    }

    #[test]
    fn json_96_what_only_some_nodes_take_stays_a_query_of_its_own() {
        for query in [
            "tm. event='NewBlock'",
            "tm.event=\u{a0}'NewBlock'",
            "tm.event=\t'NewBlock'",
            "block.height< =5",
            "a.b='x' ANDc.d='y'",
            "a.b='x",
            "",
        ] {
            assert_eq!(canonical(query), query);
        }
        let spaced = without_spaces("tm.event =\u{a0}'NewBlock'\t");
        assert_eq!(spaced, "tm.event='NewBlock'");
    }
}
