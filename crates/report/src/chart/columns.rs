//! A chart of columns for a terminal.

/// Draws one column for each of `values`, none of which is below 0, six lines high: the values of the
/// axis to the left as `label` writes them, what the first and the last column stand for below.
pub fn columns(values: &[f64], label: impl Fn(f64) -> String, from: &str, to: &str) -> String {
    let top = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut text = String::new();
    for line in (0..LINES).rev() {
        let label = label(top * (line + 1) as f64 / LINES as f64);
        text += &format!("{label:>MARGIN$} ┤");
        text.extend(values.iter().map(|value| {
            let eighths = (value / top * (LINES * 8) as f64).round() as usize;
            EIGHTHS[eighths.saturating_sub(line * 8).min(8)]
        }));
        text.push('\n');
    }
    let axis = "─".repeat(values.len());
    let width = values.len().saturating_sub(from.chars().count());
    text + &format!(
        "{:MARGIN$} └{axis}\n{:MARGIN$}  {from}{to:>width$}\n",
        "", ""
    )
}

const LINES: usize = 6;
/// Room for the labels of the axis.
const MARGIN: usize = 10;
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_shape_of_the_values() {
        let values: Vec<f64> = (1..=60).map(f64::from).collect();
        let text = columns(&values, |value| format!("{value:.0}/s"), "0s", "60s …");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), LINES + 2);
        let filled = |line: &str| line.chars().filter(|c| EIGHTHS[1..].contains(c)).count();
        let counts: Vec<usize> = lines[..LINES].iter().map(|line| filled(line)).collect();
        assert!(counts.is_sorted(), "{text}");
        assert!((8..=12).contains(&counts[0]), "{text}");
        assert!((57..=60).contains(&counts[LINES - 1]), "{text}");
        assert!(lines[0].starts_with("      60/s ┤"), "{text}");
        let ends = lines[LINES + 1];
        assert!(
            ends.starts_with("            0s ") && ends.ends_with(" 60s …"),
            "{text}"
        );
        assert_eq!(ends.chars().count(), MARGIN + 2 + 60);
    }
}
