// Package tune finds settings from what judges have answered before.
//
// It is for whoever runs attend and wants to know how often an agent would be
// woken: take the judgments of some recorded time, with their probabilities,
// and ask [SuggestThreshold] for the act threshold that fits a budget.
package tune
