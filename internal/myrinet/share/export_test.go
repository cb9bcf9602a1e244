package share

// Control is the name of a card's server.
var Control = control
