//! Floats as Python prints them (`float.__repr__`): the shortest text that reads back the same,
//! with a fraction always, in exponent form from 1e16 up and below 1e-4.

use std::fmt::Write;

/// Appends the text of a float.
pub(super) fn write_float(float: f64, out: &mut String) {
    if float.is_nan() {
        out.push_str("NaN");
        return;
    }
    if float.is_sign_negative() {
        out.push('-');
    }
    let float = float.abs();
    if float.is_infinite() {
        out.push_str("Infinity");
    } else if float == 0.0 {
        out.push_str("0.0");
    } else {
        write_finite(float, out);
    }
}

fn write_finite(float: f64, out: &mut String) {
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("the exponent form of a number has an e");
    let exponent: i32 = exponent.parse().expect("the exponent is a small integer");
    let (head, tail) = digits.split_once('.').unwrap_or((digits, ""));
    if !(-4..16).contains(&exponent) {
        out.push_str(digits);
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:02}", exponent.unsigned_abs()).expect("a string takes any text");
    } else if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n(
            '0',
            exponent.unsigned_abs() as usize - 1,
        ));
        out.push_str(head);
        out.push_str(tail);
    } else {
        let whole = exponent.unsigned_abs() as usize;
        out.push_str(head);
        let within = tail.len().min(whole);
        out.push_str(&tail[..within]);
        out.extend(std::iter::repeat_n('0', whole - within));
        out.push('.');
        out.push_str(if within == tail.len() {
            "0"
        } else {
            &tail[within..]
        });
    }
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
