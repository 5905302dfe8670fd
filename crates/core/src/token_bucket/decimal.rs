//! A number as it was written, as a fraction of whole numbers.
//!
//! A limit is written in decimal and read as a double, which for 0.29 is a
//! little less. Multiplied by 100 s that makes 28 calls of 29. The shortest
//! decimal that reads back as the same double is what somebody wrote, and its
//! digits are exact.

/// `numerator / denominator`, not negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The digits, without the point.
    pub numerator: u128,
    /// A power of ten.
    pub denominator: u128,
    /// Whether these are all digits. Those beyond thirty, before the point or
    /// after it, do not fit.
    pub is_exact: bool,
}

/// More digits than any limit worth the name has; 38 fit.
const DIGITS_MAX: usize = 30;

impl Decimal {
    /// The digits of `number`; zero for anything but a positive finite number.
    ///
    /// A longer number is cut: from 10³⁰ it is 2⁶⁴ − 1, a tiny one keeps 30
    /// decimals and is never cut to nothing.
    pub fn of(number: f64) -> Self {
        if !number.is_finite() || number <= 0.0 {
            return Decimal {
                numerator: 0,
                denominator: 1,
                is_exact: number == 0.0,
            };
        }
        let text = format!("{number}");
        let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
        if whole.len() > DIGITS_MAX {
            return Decimal {
                numerator: u64::MAX.into(),
                denominator: 1,
                is_exact: false,
            };
        }
        let kept = &decimals[..decimals.len().min(DIGITS_MAX)];
        // A double has 17 digits that are not zeros at its ends, so this fits.
        let numerator: u128 = format!("{whole}{kept}").parse().unwrap_or(u128::MAX);
        Decimal {
            numerator: numerator.max(1),
            denominator: 10u128.pow(kept.len() as u32),
            is_exact: kept.len() == decimals.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_that_were_written() {
        let table = [
            (0.29, 29, 100, true),
            (1.0 / 3.0, 3_333_333_333_333_333, 10u128.pow(16), true),
            (1e9, 1_000_000_000, 1, true),
            (1e-30, 1, 10u128.pow(30), true),
            (1e-31, 1, 10u128.pow(30), false),
            (f64::MIN_POSITIVE, 1, 10u128.pow(30), false),
            (1e29, 10u128.pow(29), 1, true),
            (1e30, u64::MAX.into(), 1, false),
            (f64::MAX, u64::MAX.into(), 1, false),
            (0.0, 0, 1, true),
            (-0.0, 0, 1, true),
            (-1.0, 0, 1, false),
            (f64::NAN, 0, 1, false),
            (f64::INFINITY, 0, 1, false),
        ];
        for (number, numerator, denominator, is_exact) in table {
            let expected = Decimal {
                numerator,
                denominator,
                is_exact,
            };
            assert_eq!(Decimal::of(number), expected, "{number}");
        }
    }
}
