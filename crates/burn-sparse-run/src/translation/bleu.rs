use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

/// Length of the longest n-gram that is compared.
const ORDER: usize = 4;

/// Computes the BLEU score of translations against one reference each, from 0 to 100 (Papineni et al., 2002), as
/// sacreBLEU defines it (Post, "A call for clarity in reporting BLEU scores", 2018): `13a` tokenization,
/// case-sensitive, with counts summed over all sentences and `exp` smoothing of counts that are zero.
///
/// # Panics
/// Panics if the numbers of translations and references differ.
pub(crate) fn bleu(translations: &[impl AsRef<str>], references: &[impl AsRef<str>]) -> f64 {
    assert_eq!(translations.len(), references.len(), "bleu: a reference for each translation");
    let (mut found, mut all) = ([0_usize; ORDER], [0_usize; ORDER]);
    let [mut length, mut expected] = [0_usize; 2];
    for (translation, reference) in translations.iter().zip(references) {
        let [translation, reference] = [words(translation.as_ref()), words(reference.as_ref())];
        length += translation.len();
        expected += reference.len();
        for order in 1..=ORDER {
            let there = runs(&reference, order);
            for (run, count) in runs(&translation, order) {
                all[order - 1] += count;
                found[order - 1] += count.min(there.get(run).copied().unwrap_or(0));
            }
        }
    }
    if all.contains(&0) || found.iter().sum::<usize>() == 0 {
        return 0.0;
    }
    let mut smoothing = 1.0;
    let precision = |(&found, &all): (&usize, &usize)| match found {
        0 => {
            smoothing *= 2.0;
            1.0 / (smoothing * all as f64)
        }
        found => found as f64 / all as f64,
    };
    let logarithms: f64 = found.iter().zip(&all).map(precision).map(f64::ln).sum();
    // The brevity penalty: without it, short translations would score a higher precision.
    let brevity = (1.0 - expected as f64 / length as f64).min(0.0);
    100.0 * (brevity + logarithms / ORDER as f64).exp()
}

/// Counts the n-grams of `order` words.
fn runs(words: &[String], order: usize) -> HashMap<&[String], usize> {
    let mut runs = HashMap::new();
    for run in words.windows(order) {
        *runs.entry(run).or_default() += 1;
    }
    runs
}

/// Splits a line into words with the tokenization of mteval-v13a, which sacreBLEU follows.
fn words(line: &str) -> Vec<String> {
    static RULES: LazyLock<Option<[(Regex, &str); 4]>> = LazyLock::new(|| {
        let rule = |pattern| Regex::new(pattern).ok();
        Some([
            // ASCII characters other than letters, digits and ' , - .
            (rule(r"([{-~\[-` -&(-+:-@/])")?, " $1 "),
            // A period or a comma, unless it is between digits.
            (rule(r"([^0-9])([.,])")?, "$1 $2 "),
            (rule(r"([.,])([^0-9])")?, " $1 $2"),
            // A dash after a digit.
            (rule(r"([0-9])(-)")?, "$1 $2 "),
        ])
    });
    let line = line.replace("<skipped>", "").replace("&quot;", "\"").replace("&amp;", "&");
    let line = format!(" {} ", line.replace("&lt;", "<").replace("&gt;", ">"));
    let rules = RULES.iter().flatten();
    let line = rules.fold(line, |line, (rule, with)| rule.replace_all(&line, *with).into_owned());
    line.split_whitespace().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with scores computed by sacreBLEU 2.5.
    #[test]
    fn scores_are_those_of_sacrebleu() {
        let references = [
            "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
            "Ein Boston Terrier läuft über saftig-grünes Gras vor einem weißen Zaun.",
            "Ein Mädchen in einem Karateanzug bricht ein Brett mit einem Tritt.",
            "Fünf Leute in Winterjacken und mit Helmen stehen im Schnee mit Schneemobilen im Hintergrund.",
            "Im Jahr 1999 kosteten 3.5 kg genau 10,50 $ - \"billig\" (fast 50% weniger)!",
        ];
        let translations = [
            "Ein Mann mit einem orangen Hut, der etwas ansieht.",
            "Ein Hund läuft über das grüne Gras vor einem weißen Zaun.",
            "Ein Mädchen in einem Karateanzug bricht ein Brett.",
            "Fünf Leute in Jacken und Helmen stehen im Schnee mit Schneemobilen im Hintergrund .",
            "Im Jahr 1999 kosteten 3,5 kg genau 10,50 $ - \"billig\" (fast 50 % weniger).",
        ];
        let score = |translations: &[&str], references: &[&str]| bleu(translations, references);
        assert!((score(&translations, &references) - 65.09481375402494).abs() < 1e-9);
        assert!((score(&references, &references) - 100.0).abs() < 1e-9);
        let long = "eine Katze läuft schnell davon";
        let more = "eine Katze läuft schnell davon und weg von hier";
        assert!((score(&["ja", more], &["ja", long]) - 45.499414040480374).abs() < 1e-9);
        let short = ["ein Hund läuft", "der Ball liegt"];
        assert_eq!(score(&short, &[long, "ein Ball liegt dort"]), 0.0);
        assert_eq!(score(&["", ""], &[long, long]), 0.0);
        assert_eq!(score(&[], &[]), 0.0);
    }

    #[test]
    fn words_are_cut_as_13a_does() {
        for (line, expected) in [
            (
                "Der Preis: 3.5 kg, 10,50 $ - \"billig\" (fast 50% weniger)!",
                "Der Preis : 3.5 kg , 10,50 $ - \" billig \" ( fast 50 % weniger ) !",
            ),
            ("a&amp;b &lt;x&gt; 1-2 a-b 5.", "a & b < x > 1 - 2 a-b 5 ."),
            ("e-mail@x.de / .5, .,7", "e-mail @ x . de / . 5 , . ,7"),
        ] {
            assert_eq!(words(line).join(" "), expected);
        }
    }
}
