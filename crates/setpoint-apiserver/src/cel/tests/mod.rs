//! Tables of expressions, of rules that are refused, and of objects that are.
