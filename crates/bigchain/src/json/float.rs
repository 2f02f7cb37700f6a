//! Floats as Python prints them (`float.__repr__`): the shortest text that reads back the same,
//! with a fraction always, in exponent form from 1e16 up and below 1e-4.

use std::fmt::Write;

/// Appends the text of a float. Rust's `Debug` has the same digits and the same bounds of the exponent
/// form, which it writes without plus sign and leading zero.
pub(super) fn write_float(float: f64, out: &mut String) {
    if float.is_infinite() {
        out.push_str(if float < 0.0 { "-Infinity" } else { "Infinity" });
        return;
    }
    let text = format!("{float:?}");
    let Some((digits, exponent)) = text.split_once('e') else {
        out.push_str(&text);
        return;
    };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    write!(out, "{digits}e{sign}{exponent:0>2}").expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_prints_them() {
        for (float, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1e5, "100000.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.000_123, "0.000123"),
            (0.00001, "1e-05"),
            (5e-324, "5e-324"),
            (1_527_499_149.748_151, "1527499149.748151"),
            (1e100, "1e+100"),
        ] {
            let mut out = String::new();
            write_float(float, &mut out);
            assert_eq!(out, text);
        }
    }
}
