package conformance

// groups contains the rules by subject.
var groups = []func() []rule{
	group(nicRules), nicQueryRules,
	group(viRules), group(viDestroyRules),
	group(listenRules), group(acceptRules), group(requestRules), group(disconnectRules),
	group(memoryRules), group(ptagRules),
	postRules, boundRules, group(doneRules), group(orderRules),
	transferRules, group(segmentRules),
	writeRules, forbiddenRules,
	group(cqRules),
	stateRules, closedRules,
	group(levelRules), group(faultRules), group(acknowledgeRules),
	group(nameRules), group(stationRules),
	readRules, readsUnderFaults,
	attributeRules,
	notifyRules, postDescRules, group(lossyWrites), group(damageRules),
	group(peerRules), ofTwoNICs("a NIC cannot be its own peer", peersRules),
}
