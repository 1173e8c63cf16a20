//! The nouns of Astrago Trainer: Kubernetes kinds, names, labels, conditions.
