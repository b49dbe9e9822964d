"""Skip-grams with noise-contrastive estimation over a small vocabulary in which words come in groups."""

import collections
import random

import numpy as np
from tensorflow import (
    Graph,
    Session,
    Variable,
    constant,
    device,
    global_variables_initializer,
    int32,
    matmul,
    nn,
    placeholder,
    random_uniform,
    reduce_mean,
    reduce_sum,
    set_random_seed,
    sqrt,
    square,
    train,
    truncated_normal,
    zeros,
)

GROUPS = [
    ["cat", "dog", "bird", "horse"],
    ["red", "green", "blue", "black"],
    ["one", "two", "three", "four"],
]
random.seed(0)
words = [
    random.choice(group) for _ in range(400) for group in [random.choice(GROUPS)] for _ in range(8)
]
dictionary = {word: i for i, (word, _) in enumerate(collections.Counter(words).most_common())}
data = [dictionary[word] for word in words]
size, dims, batch, negative = len(dictionary), 8, 64, 4


def generate_batch():
    at = [random.randrange(1, len(data) - 1) for _ in range(batch)]
    near = [data[i + random.choice([-1, 1])] for i in at]
    return np.array([data[i] for i in at], np.int32), np.array(near, np.int32)[:, None]


graph = Graph()
with graph.as_default(), device("/cpu:0"):
    set_random_seed(4)
    inputs, labels = placeholder(int32, [batch]), placeholder(int32, [batch, 1])
    embeddings = Variable(random_uniform([size, dims], -1.0, 1.0))
    embed = nn.embedding_lookup(embeddings, inputs)
    nce_weights = Variable(truncated_normal([size, dims], stddev=0.3))
    nce_biases = Variable(zeros([size]))
    loss = reduce_mean(nn.nce_loss(nce_weights, nce_biases, labels, embed, negative, size))
    optimizer = train.GradientDescentOptimizer(1.0).minimize(loss)
    normalized = embeddings / sqrt(reduce_sum(square(embeddings), 1, keep_dims=True))
    wanted = constant([dictionary["cat"], dictionary["red"], dictionary["one"]])
    similarity = matmul(nn.embedding_lookup(normalized, wanted), normalized, transpose_b=True)

with Session(graph=graph) as session:
    session.run(global_variables_initializer())
    losses = []
    for _ in range(800):
        xs, ys = generate_batch()
        losses.append(session.run([optimizer, loss], {inputs: xs, labels: ys})[1])
    print("loss falls", np.mean(losses[-50:]) < 0.8 * np.mean(losses[:50]))
    names = {i: word for word, i in dictionary.items()}
    for row, group in zip(session.run(similarity), GROUPS):
        near = [names[i] for i in (-row).argsort()[1:3]]
        print("near", group[0], "in its group", sum(word in group for word in near))
