package ethertype

// IsFabric gives tests isFabric.
var IsFabric = isFabric
