package udp

// MAC is MAC, for tests.
var MAC = macOf
