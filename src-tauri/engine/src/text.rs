//! Text of others, made fit to be shown, stored or handed on: cut on characters, kept on one line.

/// The longest prefix of `text` of at most `max` bytes that ends on a character boundary.
pub fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// `text` as one line of at most `max` characters that is safe to show beside others: white space becomes one space,
/// control characters go, and so does what changes the direction of the text around it. A cut shows as `…`.
pub fn plain(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() {
            gap = true;
        } else if !c.is_control() && !turns_text(c) {
            let wanted = 1 + usize::from(gap && length > 0);
            if length + wanted > max {
                // The cut mark takes the place of what would be the last character.
                if length == max {
                    line.pop();
                }
                if max > 0 {
                    line.push('…');
                }
                return line;
            }
            if wanted == 2 {
                line.push(' ');
            }
            line.push(c);
            length += wanted;
            gap = false;
        }
    }
    line
}

/// Whether the character is invisible and changes how the text around it is laid out.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A whole number with its thousands apart: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
