package splitc

// ForCredit is forCredit, for tests.
const ForCredit = forCredit
